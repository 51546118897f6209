"""A smaller model as a drafter."""
