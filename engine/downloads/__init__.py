"""Fetching models: the Hub, the package index, and their child processes."""
