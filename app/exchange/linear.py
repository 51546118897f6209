"""Messages of formats that have a list and no tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from app.exchange.tree import FoundMessage


def chained(messages: Iterable[FoundMessage]) -> list[FoundMessage]:
    """Each follows the one before it."""
    found: list[FoundMessage] = []
    for message in messages:
        found.append(replace(message, parent=found[-1].key if found else None))
    return found
