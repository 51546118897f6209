"""Drafters that are made of drafters."""
