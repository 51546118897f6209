"""Conversations in one sqlite file: what each is called, and when it was last written to."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app import search
from app.chat_file import advice
from app.messages import Messages
from app.stored_message import parsed_details

TITLE_LENGTH = 60
UNTITLED = "New chat"


@dataclass(frozen=True, slots=True)
class Conversation:
    id: int
    title: str
    updated: float
    pinned: int = 0
    folder: str = ""


class Conversations(Messages):
    """With their messages. Thread-safe: one connection behind one lock."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        search.prepare(self._connection)
        try:
            self._recover()
        except sqlite3.OperationalError as error:
            # A full disk, say: what is there can be read, and the next start does it.
            self.problem = (
                f"{self.problem} Chats cannot be saved: {error} ({advice(error)}).".strip()
            )

    def _recover(self) -> None:
        """After a crash: replies still marked as streaming were interrupted. Empty the bin."""
        for message, details in self._all("select id, details from messages where streaming"):
            self._run(
                "update messages set streaming = 0, details = ? where id = ?",
                json.dumps(parsed_details(details) | {"finish": "interrupted"}),
                message,
            )
        self._run("delete from messages where deleted")
        self._run("delete from conversations where deleted")
        self._run("delete from files where sha256 not in (select sha256 from attachments)")

    def create(self, first_message: str) -> Conversation:
        return self._create(title_of(first_message) or UNTITLED)

    def create_like(self, other: int) -> Conversation:
        """With the title, the folder and the settings of another one."""
        made = self._create(self.title(other))
        self.change(
            "update conversations set (folder, settings) ="
            " (select folder, settings from conversations where id = ?) where id = ?",
            *(other, made.id),
        )
        return made

    def _create(self, title: str) -> Conversation:
        now = time.time()
        new_id = self._run("insert into conversations (title, updated) values (?, ?)", title, now)
        return Conversation(new_id, title, now)

    def find(
        self, text: str = "", limit: int = 500, closed: Sequence[str] = ()
    ) -> tuple[Conversation, ...]:
        """Pinned ones, then those in folders, then the others, each newest first; looks in titles
        and messages, whatever the case. closed: folders whose chats are left out, unless they are
        looked for."""
        wanted = search.fold(text)
        asked = {"wanted": wanted, "limit": limit, "closed": json.dumps(list(closed))}
        with self._lock:
            if wanted:
                search.catch_up(self._connection)
            rows = self._connection.execute(search.FIND, asked)
            return tuple(Conversation(*row) for row in rows)

    def title(self, conversation: int) -> str:
        rows = self._all("select title from conversations where id = ?", conversation)
        return str(rows[0][0]) if rows else ""

    def exists(self, conversation: int) -> bool:
        query = "select 1 from conversations where id = ? and not deleted"
        return bool(self._all(query, conversation))

    def rename(self, conversation: int, title: str) -> bool:
        """False when it is gone."""
        return self.change("update conversations set title = ? where id = ?", title, conversation)

    def set_deleted(self, conversation: int, deleted: bool) -> bool:
        """Deleting can be undone until the next start; False when it is gone."""
        change = "update conversations set deleted = ? where id = ?"
        return self.change(change, deleted, conversation)


def title_of(first_message: str) -> str:
    """Its first words, "" when it has none."""
    words = " ".join(first_message.split())
    return words[:TITLE_LENGTH].rstrip() + ("…" if len(words) > TITLE_LENGTH else "")
