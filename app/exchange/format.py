"""What a format is: how its records are told from others, and how one of them is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.exchange.tree import FoundChat

Records = list[Any]


def one_by_one(records: Records) -> Records:
    return records


@dataclass(frozen=True, slots=True)
class Format:
    """A file is a list of records: what its JSON list holds, its lines, or itself.

    matches: whether a record is of this format. chats: what to read, from all records of a file.
    read: one of those; SkippedError when it cannot be.
    """

    name: str
    files: str
    matches: Callable[[dict[str, Any]], bool]
    read: Callable[[Any], FoundChat]
    chats: Callable[[Records], Records] = one_by_one
