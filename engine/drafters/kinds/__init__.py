"""One file a drafter."""
