"""A character card, of version 1, 2 or 3, and the texts that a chat gets of it.

Version 1 is flat, 2 and 3 keep their fields in `data`. Fields that are not known stay in the card.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.characters.lorebook import Lorebook, lorebook_of
from engine.data.errors import BadOptionError

USER = "User"
"""What {{user}} becomes: the page asks for no name."""
MOST_GREETINGS = 100
_LONGEST_NAME = 200
_MACRO = re.compile(r"\{\{\s*(char|user)\s*\}\}|<(bot|user)>", re.IGNORECASE)
_ORIGINAL = re.compile(r"\{\{\s*original\s*\}\}", re.IGNORECASE)
_START = re.compile(r"^[ \t]*<START>[ \t]*$", re.IGNORECASE | re.MULTILINE)
_BLANKS = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Character:
    """system: everything that is said of it, for the system prompt. after: what is said to the
    model at the very end. greetings: first messages to choose from."""

    name: str
    system: str
    greetings: tuple[str, ...]
    after: str
    lorebook: Lorebook


def character_of(card: Mapping[str, Any], original: str) -> Character:
    """original: the system prompt where the card has none. BadOptionError when it is no card."""
    data = card.get("data", card)
    if not isinstance(data, dict) or not _text(data, "name").strip():
        raise BadOptionError("the file holds no character card: a card has a name")
    name = (_text(data, "nickname").strip() or _text(data, "name").strip())[:_LONGEST_NAME]

    def told(field: str, instead: str = "") -> str:
        return _named(_ORIGINAL.sub(lambda _: instead, _text(data, field)), name).strip()

    greetings = [_text(data, "first_mes"), *_texts(data.get("alternate_greetings"))]
    return Character(
        name=name,
        system=_system(name, told, original),
        greetings=tuple(_named(one, name).strip() for one in greetings if one.strip()),
        after=told("post_history_instructions"),
        lorebook=lorebook_of(data.get("character_book"), lambda text: _named(text, name)),
    )


def _system(name: str, told: Callable[..., str], original: str) -> str:
    examples = _START.sub("***", told("mes_example"))
    parts = [
        told("system_prompt", original) or original or f"You are {name}, in a chat with {USER}.",
        told("description"),
        _headed(f"Personality of {name}", told("personality")),
        _headed("Scenario", told("scenario")),
        _headed(f"Examples of how {name} talks", examples, "\n"),
    ]
    return _BLANKS.sub("\n\n", "\n\n".join(part.strip() for part in parts if part.strip()))


def _headed(head: str, text: str, between: str = " ") -> str:
    return f"{head}:{between}{text}" if text.strip() else ""


def _named(text: str, name: str) -> str:
    def of(match: re.Match[str]) -> str:
        return USER if (match[1] or match[2]).lower() == "user" else name

    return _MACRO.sub(of, text)


def _text(data: Mapping[str, Any], field: str) -> str:
    value = data.get(field)
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else []
    return [one for one in listed if isinstance(one, str)][: MOST_GREETINGS - 1]
