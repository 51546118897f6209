"""Conversation files as version 1 wrote them: one path of each chat, and beside it what an
unfinished reply had taken the place of."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

SCHEMA = """
create table conversations (
    id integer primary key autoincrement,
    title text not null,
    updated real not null,
    deleted integer not null default 0
);
create table messages (
    id integer primary key autoincrement,
    conversation integer not null references conversations (id) on delete cascade,
    role text not null check (role in ('user', 'assistant')),
    content text not null,
    tokens text not null default '[]',
    details text not null default '{}',
    streaming integer not null default 0
);
create index messages_by_conversation on messages (conversation, id);
create table replaced (
    id integer primary key,
    reply integer not null,
    conversation integer not null references conversations (id) on delete cascade,
    role text not null,
    content text not null,
    tokens text not null,
    details text not null
);
create index replaced_by_reply on replaced (reply);
create index replaced_by_conversation on replaced (conversation);
pragma user_version = 1;
"""


class EarlierFile:
    """Rows by their numbers, as that version would have written them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as file:
            file.executescript(SCHEMA)

    def chat(self, number: int, messages: Sequence[tuple[int, str, str]]) -> None:
        """messages: number, role, text."""
        with closing(sqlite3.connect(self.path)) as file, file:
            file.execute(
                "insert into conversations (id, title, updated) values (?, ?, ?)",
                (number, f"chat {number}", float(number)),
            )
            for identity, role, text in messages:
                file.execute(
                    "insert into messages (id, conversation, role, content, tokens)"
                    " values (?, ?, ?, ?, ?)",
                    (identity, number, role, text, tokens_of(role, text)),
                )

    def replaced(self, reply: int, chat: int, messages: Sequence[tuple[int, str, str]]) -> None:
        with closing(sqlite3.connect(self.path)) as file, file:
            for identity, role, text in messages:
                file.execute(
                    "insert into replaced values (?, ?, ?, ?, ?, ?, '{}')",
                    (identity, reply, chat, role, text, tokens_of(role, text)),
                )

    def details(self, message: int, details: dict[str, Any]) -> None:
        with closing(sqlite3.connect(self.path)) as file, file:
            file.execute(
                "update messages set details = ? where id = ?", (json.dumps(details), message)
            )


def tokens_of(role: str, text: str) -> str:
    return json.dumps([[text, "p", None, None, None, None]] if role == "assistant" else [])
