"""Drafters: one file each, one protocol (base.py)."""
