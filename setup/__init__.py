"""Setting up and starting a checkout: standard library only, no import of the project."""
