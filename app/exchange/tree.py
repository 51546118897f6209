"""The neutral form of a chat: a tree of messages, of which one path is the one that is read.

A format hands over what it found as a `FoundChat`, with the ids of its own program. `grown` makes a
`ChatTree` of it: ids are new, messages that are not kept are taken out and what hangs on them moves
up, and a circle is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app.wire import WireToken

Role = Literal["system", "user", "assistant"]
MOST_MESSAGES = 20_000
"""Of one chat: more than a page can draw."""
LONGEST_MESSAGE = 2_000_000
"""Characters: more than the largest context can hold."""


_MOST_HIDDEN = 100
"""Hidden messages in a row whose thoughts are looked at."""


class SkippedError(Exception):
    """This chat, or this part of a file, is left out; the others are not. The message says why."""


@dataclass(frozen=True, slots=True)
class ChatFile:
    """What was attached to a message. bytes: of the file, of which only the text is kept."""

    name: str
    kind: str
    bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """key, parent: ids of the program that wrote it. kept: False for what a reader never saw."""

    key: str
    parent: str | None
    role: Role
    content: str = ""
    reasoning: str = ""
    time: float | None = None
    model: str = ""
    tokens: Sequence[WireToken] = ()
    details: dict[str, Any] = field(default_factory=dict)
    kept: bool = True
    files: Sequence[ChatFile] = ()


@dataclass(frozen=True, slots=True)
class FoundChat:
    """current: the key of the last message of the path that is read, None if it is not known."""

    title: str
    messages: Sequence[FoundMessage]
    current: str | None = None
    created: float | None = None
    updated: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """id: from 1 on within its chat. reasoning: thoughts, apart from the answer."""

    id: int
    parent: int | None
    role: Role
    content: str
    reasoning: str = ""
    time: float | None = None
    model: str = ""
    tokens: Sequence[WireToken] = ()
    details: dict[str, Any] = field(default_factory=dict)
    files: Sequence[ChatFile] = ()


@dataclass(frozen=True, slots=True)
class ChatTree:
    """current: the last node of the path that is read. Times in seconds since 1970."""

    title: str
    nodes: tuple[Node, ...]
    current: int
    created: float | None = None
    updated: float | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def path(self) -> list[Node]:
        """From a root to the current node."""
        by_id = {node.id: node for node in self.nodes}
        found: list[Node] = []
        at: int | None = self.current
        while at is not None:
            found.append(by_id[at])
            at = by_id[at].parent
        return found[::-1]


def grown(chat: FoundChat) -> ChatTree:
    """The tree of what was found; SkippedError when it cannot be one."""
    by_key = {message.key: message for message in chat.messages}
    if len(by_key) != len(chat.messages):
        raise SkippedError("two of its messages have the same id")
    _check_circles(chat.messages, by_key)
    kept = [message for message in chat.messages if message.kept]
    if not any(message.role != "system" for message in kept):
        raise SkippedError("it holds no messages")
    above = _kept_above(chat.messages, by_key)
    numbers = {message.key: number for number, message in enumerate(kept, start=1)}
    nodes = tuple(
        Node(
            id=numbers[message.key],
            parent=numbers.get(above[message.key] or ""),
            role=message.role,
            content=message.content,
            reasoning=_thoughts(message, by_key),
            time=message.time,
            model=message.model,
            tokens=message.tokens,
            details=message.details,
            files=message.files,
        )
        for message in kept
    )
    chosen = chat.current if chat.current in by_key else None
    if chosen is not None and not by_key[chosen].kept:
        chosen = above[chosen]
    last = _newest_leaf(nodes) if chosen is None else numbers[chosen]
    tree = ChatTree(chat.title, nodes, last, chat.created, chat.updated, chat.details)
    if any(node.role != "system" for node in tree.path()):
        return tree
    newest = max(node.id for node in nodes if node.role != "system")
    return replace(tree, current=newest)


def check_sizes(chat: FoundChat) -> None:
    """SkippedError for a chat that is larger than any that is written here."""
    if len(chat.messages) > MOST_MESSAGES:
        raise SkippedError(f"it has {len(chat.messages):,} messages; {MOST_MESSAGES:,} can be kept")
    longest = max(map(_length, chat.messages), default=0)
    if longest > LONGEST_MESSAGE:
        raise SkippedError(f"a message has {longest:,} characters; {LONGEST_MESSAGE:,} can be kept")


def _length(message: FoundMessage) -> int:
    """Characters of its longest part."""
    files = (len(file.text) for file in message.files)
    return max(len(message.content) + len(message.reasoning), *files, 0)


def _check_circles(messages: Sequence[FoundMessage], by_key: Mapping[str, FoundMessage]) -> None:
    """Every walk upwards ends. Each message is passed once over all walks."""
    ends: set[str] = set()
    for message in messages:
        walked: dict[str, None] = {}
        at: FoundMessage | None = message
        while at is not None and at.key not in ends:
            if at.key in walked:
                raise SkippedError("its messages follow each other in a circle")
            walked[at.key] = None
            at = by_key.get(at.parent) if at.parent is not None else None
        ends.update(walked)


def _kept_above(
    messages: Sequence[FoundMessage], by_key: Mapping[str, FoundMessage]
) -> dict[str, str | None]:
    """Of each message, the nearest one above it that is kept. Each is passed once."""
    above: dict[str, str | None] = {}
    for message in messages:
        walked: list[str] = []
        at: FoundMessage | None = message
        found: str | None = None
        while at is not None and at.key not in above:
            walked.append(at.key)
            parent = by_key.get(at.parent) if at.parent is not None else None
            if parent is not None and parent.kept:
                found = parent.key
                break
            at = parent
        else:
            found = None if at is None else above[at.key]
        above.update(dict.fromkeys(walked, found))
    return above


def _thoughts(message: FoundMessage, by_key: Mapping[str, FoundMessage]) -> str:
    """A reply's own, after those in the hidden messages right above it."""
    thoughts = [message.reasoning]
    if message.role == "assistant":
        for _ in range(_MOST_HIDDEN):
            above = by_key.get(message.parent) if message.parent is not None else None
            if above is None or above.kept:
                break
            thoughts.insert(0, above.reasoning)
            message = above
    return "\n\n".join(filter(None, thoughts))


def _newest_leaf(nodes: Sequence[Node]) -> int:
    parents = {node.parent for node in nodes}
    return next(node.id for node in reversed(nodes) if node.id not in parents)
