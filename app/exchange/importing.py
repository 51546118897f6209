"""Reads a file of chats, whatever program wrote it, and says what was left out and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, Any

from app.exchange.format import Format
from app.exchange.registry import format_of, known_formats
from app.exchange.source import Part, parts_of
from app.exchange.tree import ChatTree, SkippedError, check_sizes, grown
from engine.data.errors import BadOptionError
from engine.data.shown import shown

MOST_CHATS = 50_000
MOST_MESSAGES = 1_000_000
_MOST_FIELDS = 6


@dataclass(frozen=True, slots=True)
class Skipped:
    """what: a chat's title, or a file of an archive."""

    what: str
    reason: str


@dataclass(slots=True)
class FoundFile:
    """formats: names, in the order in which they were found."""

    formats: list[str] = field(default_factory=list)
    chats: list[ChatTree] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def messages(self) -> int:
        return sum(len(chat.nodes) for chat in self.chats)


def read_chats(file: IO[bytes], name: str) -> FoundFile:
    """BadOptionError when there is no chat of a known format in it, or too much."""
    name = shown(name, 120)
    found, unknown = FoundFile(), []
    for part in parts_of(file, name):
        if part.problem:
            found.skipped.append(Skipped(part.name, part.problem))
            continue
        kind = format_of(part.records)
        if kind is None:
            unknown.append(f"{part.name} is {_described(part.records)}")
            continue
        if kind.name not in found.formats:
            found.formats.append(kind.name)
        _read_part(part, kind, found)
    if not found.formats:
        raise BadOptionError(_nothing_known(name, unknown, found.skipped))
    return found


def _read_part(part: Part, kind: Format, found: FoundFile) -> None:
    messages = found.messages
    for number, record in enumerate(kind.chats(part.records), start=1):
        if len(found.chats) == MOST_CHATS or messages > MOST_MESSAGES:
            raise BadOptionError(
                f"{part.name} holds more than {MOST_CHATS:,} chats or {MOST_MESSAGES:,} messages:"
                " import it in parts"
            )
        try:
            chat = _read_chat(record, kind)
        except SkippedError as error:
            found.skipped.append(Skipped(_title(record, number), str(error)))
            continue
        found.chats.append(chat)
        messages += len(chat.nodes)


def _read_chat(record: Any, kind: Format) -> ChatTree:
    if not isinstance(record, dict):
        raise SkippedError(f"it is not a chat of {kind.name}")
    chat = kind.read(record)
    check_sizes(chat)
    return grown(chat)


def _title(record: Any, number: int) -> str:
    """As the user knows it, else its number in the file."""
    named = record if isinstance(record, dict) else {}
    inner = named.get("conv")
    names = (named.get("title"), named.get("name"), isinstance(inner, dict) and inner.get("name"))
    title = next((one for one in names if isinstance(one, str) and one.strip()), "")
    return shown(title, 80) or f"chat {number}"


def _described(records: list[Any]) -> str:
    """What a file holds that is no chat, for the error."""
    if not records:
        return "an empty list"
    if not isinstance(records[0], dict):
        return "JSON without any table"
    names = ", ".join(shown(name, 30) for name in list(records[0])[:_MOST_FIELDS])
    return f"JSON with the fields {names}" if names else "an empty table"


def _nothing_known(name: str, unknown: list[str], skipped: list[Skipped]) -> str:
    what = unknown[:3] or [f"{one.what} was not read ({one.reason})" for one in skipped[:3]]
    told = "; ".join(what) or f"{name} holds no JSON"
    return f"no chats were found: {told}. Known are {known_formats()}"
