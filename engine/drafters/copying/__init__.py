"""What the lookup copies from, and how sure it may be of it."""
