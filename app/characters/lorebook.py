"""A lorebook: texts that are told when their keys turn up in the last messages.

Kept simple. A key is a piece of text, compared without case unless its entry asks for it; entries
whose keys are patterns are left out. What is told stands near the end of the prompt, so that what
the caches hold of the chat stays good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SCAN_MESSAGES = 4
"""Of the last messages, unless the book says another number."""
MOST_CHARACTERS = 8_000
"""Told at once; the first in the book's order come first."""
MOST_ENTRIES = 2_000
_MOST_KEYS = 50
_LONGEST_SCAN = 50
_LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """others: of which one must turn up as well; none where there are none. constant: always told.
    order: smaller ones come first."""

    text: str
    keys: tuple[str, ...]
    others: tuple[str, ...] = ()
    constant: bool = False
    with_case: bool = False
    order: float = 0

    def is_meant(self, text: str, folded: str) -> bool:
        if self.constant:
            return True
        where = text if self.with_case else folded
        has_key, has_other = (self._any_in(keys, where) for keys in (self.keys, self.others))
        return has_key and (has_other or not self.others)

    def _any_in(self, keys: Sequence[str], text: str) -> bool:
        return any((key if self.with_case else key.casefold()) in text for key in keys)


@dataclass(frozen=True, slots=True)
class Lorebook:
    entries: tuple[Entry, ...] = ()
    depth: int = SCAN_MESSAGES

    def told(self, messages: Sequence[str]) -> str:
        """What the last of these messages call for, "" if nothing."""
        text = "\n".join(messages[-self.depth :])
        folded = text.casefold()
        told, left = [], MOST_CHARACTERS
        for entry in self.entries:
            if len(entry.text) <= left and entry.is_meant(text, folded):
                told.append(entry.text)
                left -= len(entry.text)
        return "\n\n".join(told)


def lorebook_of(book: Any, named: Callable[[str], str]) -> Lorebook:
    """Of a card's `character_book`. named: puts names where the card has marks for them."""
    if not isinstance(book, dict):
        return Lorebook()
    depth = book.get("scan_depth")
    entries = [_entry(one, named) for one in _listed(book.get("entries"))[:MOST_ENTRIES]]
    kept = sorted((one for one in entries if one is not None), key=lambda entry: entry.order)
    if isinstance(depth, int) and 0 < depth <= _LONGEST_SCAN:
        return Lorebook(tuple(kept), depth)
    return Lorebook(tuple(kept))


def _entry(data: Any, named: Callable[[str], str]) -> Entry | None:
    """None for what is switched off, says nothing, or has patterns for keys."""
    if not isinstance(data, dict) or data.get("enabled") is False or data.get("use_regex") is True:
        return None
    content, order = data.get("content"), data.get("insertion_order")
    text = named(_undecorated(content)).strip() if isinstance(content, str) else ""
    keys, constant = _keys(data.get("keys"), named), data.get("constant") is True
    if not text or not (keys or constant):
        return None
    return Entry(
        text=text,
        keys=keys,
        others=_keys(data.get("secondary_keys"), named) if data.get("selective") is True else (),
        constant=constant,
        with_case=data.get("case_sensitive") is True,
        order=order if isinstance(order, int | float) else 0,
    )


def _undecorated(content: str) -> str:
    """Version 3 writes instructions to programs in front, each a line that begins with @@."""
    lines = content.split("\n")
    while lines and lines[0].lstrip().startswith("@@"):
        lines.pop(0)
    return "\n".join(lines)


def _keys(value: Any, named: Callable[[str], str]) -> tuple[str, ...]:
    texts = [named(one).strip() for one in _listed(value)[:_MOST_KEYS] if isinstance(one, str)]
    return tuple(one for one in texts if 0 < len(one) <= _LONGEST_KEY)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
