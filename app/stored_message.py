"""A message as the conversation file keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from app.wire import WireToken

MessageRole = Literal["user", "assistant", "system"]
Parsed = TypeVar("Parsed", list[Any], dict[str, Any])
_LOST_TRACE = "The record of how this reply was drafted is damaged; its text is complete."
COLUMNS = "id, parent, role, content, tokens, details, streaming, created, reasoning, ids != '{}'"
"""What `stored_message` reads, in its order."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """parent: what it follows, None for a first message. tokens: wire tokens of a reply. details:
    its figures, drafter names, finish, error. created: seconds since 1970, 0 where nobody knows.
    reasoning: thoughts that another program kept as text. has_ids: whether the ids of its tokens
    are kept, see app/token_ids.py. versions: numbers of all that follow the same message, this one
    among them.
    """

    id: int
    role: MessageRole
    content: str
    tokens: list[WireToken] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    streaming: bool = False
    parent: int | None = None
    created: float = 0.0
    reasoning: str = ""
    has_ids: bool = False
    versions: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Not a copy: a long chat has a hundred thousand tokens."""
        return {column.name: getattr(self, column.name) for column in fields(self)}


def stored_message(row: tuple[Any, ...], versions: tuple[int, ...] = ()) -> StoredMessage:
    """A column that cannot be read costs what was in it, not the chat: the text is there twice."""
    identity, parent, role, content, tokens, details, streaming, created, reasoning, ids = row
    trace, known = _read_tokens(tokens), parsed_details(details)
    if role == "assistant" and content and not trace:
        trace = [[content, "p", None, None, None, None]]
        known["notices"] = [*known.get("notices", ()), _LOST_TRACE]
    return StoredMessage(
        id=identity,
        role=role,
        content=content,
        tokens=trace,
        details=known,
        streaming=bool(streaming),
        parent=parent,
        created=float(created),
        reasoning=reasoning,
        has_ids=bool(ids) and len(trace) > 0,
        versions=versions,
    )


def _read_tokens(stored: str) -> list[WireToken]:
    """None of them if one is no token."""
    tokens = _parsed(stored, list)
    sound = all(isinstance(one, list) and len(one) >= 6 and type(one[0]) is str for one in tokens)
    return tokens if sound else []


def parsed_details(stored: str) -> dict[str, Any]:
    """Of a message; an empty table when it is damaged."""
    details = _parsed(stored, dict)
    texts = details.get("notices", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        del details["notices"]
    return details


def _parsed(stored: str, kind: type[Parsed]) -> Parsed:
    """An empty one when it is damaged."""
    try:
        value = json.loads(stored)
    except (ValueError, TypeError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()
