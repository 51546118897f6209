"""The one error of the set-up."""

from __future__ import annotations


class SetupError(Exception):
    """The message says what happened and what to do; it may have several lines."""
