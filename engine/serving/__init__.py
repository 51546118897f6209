"""A load from request to open models, and the replies made with it."""
