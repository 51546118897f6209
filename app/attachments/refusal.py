"""Why a file cannot be read: one clause that goes on after its name."""

from __future__ import annotations


class UnreadableError(Exception):
    """ "is encrypted: ...", say."""
