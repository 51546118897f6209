"""Training itself; the only folder that imports torch."""
