"""Chats as the text of one file, in pieces, so that many of them need little memory."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from app.exchange import forerun_json, markdown
from app.exchange.chat_rows import chat_numbers, read_chat
from app.exchange.tree import ChatTree
from engine.data.errors import BadOptionError

Reading = Callable[[], AbstractContextManager[sqlite3.Connection]]
ExportFormat = Literal["json", "markdown"]


@dataclass(frozen=True, slots=True)
class _Form:
    ending: str
    media_type: str
    head: str
    between: str
    tail: str
    text: Callable[[ChatTree], str]


_FORMS: dict[ExportFormat, _Form] = {
    "json": _Form(
        "json",
        "application/json",
        forerun_json.HEAD,
        forerun_json.BETWEEN,
        forerun_json.TAIL,
        forerun_json.chat_json,
    ),
    "markdown": _Form("md", "text/markdown", "", markdown.BETWEEN, "", markdown.chat_markdown),
}
FORMATS: tuple[ExportFormat, ...] = tuple(_FORMS)


def media_type(form: ExportFormat) -> str:
    return f"{_FORMS[form].media_type}; charset=utf-8"


def chosen_chats(reading: Reading, conversation: int | None) -> list[int]:
    """Numbers of the one, or of all. BadOptionError when there is nothing to export."""
    with reading() as connection:
        numbers = chat_numbers(connection)
        if conversation is not None and conversation not in numbers:
            raise BadOptionError(
                f"there is no chat {conversation}: a chat's page has its number in the address"
            )
        chosen = numbers if conversation is None else [conversation]
        if conversation is not None and read_chat(connection, conversation) is None:
            raise BadOptionError("that chat holds no messages yet")
    if not chosen:
        raise BadOptionError("there are no chats to export")
    return chosen


def exported(reading: Reading, chats: Sequence[int], form: ExportFormat) -> Iterator[str]:
    """Each chat is read when its turn has come; one that has gone since is left out."""
    shape, first = _FORMS[form], True
    yield shape.head
    for number in chats:
        with reading() as connection:
            chat = read_chat(connection, number)
        if chat is not None:
            yield shape.text(chat) if first else shape.between + shape.text(chat)
            first = False
    yield shape.tail


def file_name(title: str | None, form: ExportFormat) -> str:
    """Safe on every system, and in a header: letters, digits and hyphens."""
    words = re.sub("[^a-z0-9]+", "-", (title or "chats").lower()).strip("-")[:60].strip("-")
    return f"forerun-{words or 'chat'}.{_FORMS[form].ending}"
