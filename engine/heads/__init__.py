"""Files of learned heads: formats, conversion, fit to a target."""
