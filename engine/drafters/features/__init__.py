"""Heads that read the target's hidden states: graphs, caches, capture."""
