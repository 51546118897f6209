"""Heads and small drafters learned from a target on this machine."""
