"""Character cards: read from files of three forms, and what becomes of them in a chat."""
