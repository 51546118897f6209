"""Pure mathematics of sampling and verification: arrays in, arrays out."""
