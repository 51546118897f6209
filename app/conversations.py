"""Conversations in one sqlite file: messages with the trace and the figures of every reply.

A reply is written while it streams, so that whatever ends this process loses a second at most.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from app.wire import WireToken
from engine.data.documents import sendable

log = logging.getLogger(__name__)
MessageRole = Literal["user", "assistant"]
TITLE_LENGTH = 60

SCHEMA = """
create table if not exists conversations (
    id integer primary key,
    title text not null,
    updated real not null,
    deleted integer not null default 0
);
create table if not exists messages (
    id integer primary key,
    conversation integer not null references conversations (id) on delete cascade,
    role text not null check (role in ('user', 'assistant')),
    content text not null,
    tokens text not null default '[]',
    details text not null default '{}',
    streaming integer not null default 0
);
create index if not exists messages_by_conversation on messages (conversation, id);
"""


@dataclass(frozen=True, slots=True)
class Conversation:
    id: int
    title: str
    updated: float


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """tokens: wire tokens of a reply. details: its figures, drafter names, finish, error."""

    id: int
    role: MessageRole
    content: str
    tokens: list[WireToken] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    streaming: bool = False


class Conversations:
    """Thread-safe: one connection behind one lock."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._told_of_bytes = False
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        # Bytes that are no text, from whatever wrote them, must not keep a chat from being read.
        self._connection.text_factory = self._text
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma foreign_keys = on")
        self._connection.executescript(SCHEMA)
        self._recover()

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            if not self._told_of_bytes:
                self._told_of_bytes = True
                log.warning("some bytes in the chats are no text: they show as �, all else is kept")
            return raw.decode("utf-8", "replace")

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """All changes made inside happen, or none: nothing is lost when the disk is full."""
        with self._lock:
            self._connection.execute("begin immediate")
            try:
                yield
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:  # a full disk has rolled back already
                    self._connection.execute("rollback")
                raise

    def _recover(self) -> None:
        """After a crash: replies still marked as streaming were interrupted. Empty the bin."""
        rows = self._all("select id, details from messages where streaming")
        for message_id, details in rows:
            interrupted = {**json.loads(details), "finish": "interrupted"}
            self._run(
                "update messages set streaming = 0, details = ? where id = ?",
                json.dumps(interrupted),
                message_id,
            )
        self._run("delete from conversations where deleted")

    def create(self, first_message: str) -> Conversation:
        words = " ".join(first_message.split())
        title = words[:TITLE_LENGTH].rstrip() + ("…" if len(words) > TITLE_LENGTH else "")
        now = time.time()
        new_id = self._run(
            "insert into conversations (title, updated) values (?, ?)", title or "New chat", now
        )
        return Conversation(new_id, title or "New chat", now)

    def find(self, search: str = "", limit: int = 500) -> tuple[Conversation, ...]:
        """Newest first; search looks in titles and messages."""
        escaped = search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        pattern = f"%{escaped}%"
        rows = self._all(
            "select id, title, updated from conversations c where not deleted and (title like ?"
            " escape '\\' or exists (select 1 from messages m where m.conversation = c.id and"
            " m.content like ? escape '\\')) order by updated desc, id desc limit ?",
            pattern,
            pattern,
            limit,
        )
        return tuple(Conversation(*row) for row in rows)

    def exists(self, conversation: int) -> bool:
        query = "select 1 from conversations where id = ? and not deleted"
        return bool(self._all(query, conversation))

    def rename(self, conversation: int, title: str) -> None:
        self._run("update conversations set title = ? where id = ?", title, conversation)

    def set_deleted(self, conversation: int, deleted: bool) -> None:
        """Deleting can be undone until the next start."""
        self._run("update conversations set deleted = ? where id = ?", deleted, conversation)

    def messages(self, conversation: int) -> tuple[StoredMessage, ...]:
        rows = self._all(
            "select id, role, content, tokens, details, streaming from messages"
            " where conversation = ? order by id",
            conversation,
        )
        return tuple(
            StoredMessage(row[0], row[1], row[2], json.loads(row[3]), json.loads(row[4]), row[5])
            for row in rows
        )

    def texts_of_others(self, conversation: int, characters: int) -> tuple[str, ...]:
        """Messages of the other chats, the newest up to so many characters, the newest last."""
        rows = self._all(
            "select content from (select m.id, m.content, sum(length(m.content)) over"
            " (order by m.id desc) as reached from messages m join conversations c"
            " on c.id = m.conversation where not c.deleted and m.conversation != ?"
            " and not m.streaming and m.content != '') where reached <= ? order by id",
            conversation,
            characters,
        )
        return tuple(row[0] for row in rows)

    def conversation_of(self, message: int) -> int | None:
        rows = self._all("select conversation from messages where id = ?", message)
        return int(rows[0][0]) if rows else None

    def recent_prompts(self, limit: int) -> tuple[str, ...]:
        """What the user wrote last, newest first, in all conversations that are kept."""
        rows = self._all(
            "select m.content from messages m join conversations c on c.id = m.conversation"
            " where m.role = 'user' and not c.deleted order by m.id desc limit ?",
            limit,
        )
        return tuple(str(row[0]) for row in rows)

    def add_user(self, conversation: int, content: str) -> int:
        self._touch(conversation)
        return self._run(
            "insert into messages (conversation, role, content) values (?, 'user', ?)",
            conversation,
            content,
        )

    def start_reply(self, conversation: int) -> int:
        return self._run(
            "insert into messages (conversation, role, content, streaming)"
            " values (?, 'assistant', '', 1)",
            conversation,
        )

    def save_reply(
        self,
        message: int,
        content: str,
        tokens: Sequence[WireToken],
        details: dict[str, Any],
        streaming: bool,
    ) -> None:
        packed = json.dumps(tokens, separators=(",", ":"), ensure_ascii=False)
        self._run(
            "update messages set content = ?, tokens = ?, details = ?, streaming = ? where id = ?",
            content,
            packed,
            json.dumps(sendable(details), ensure_ascii=False),
            streaming,
            message,
        )

    def cut(self, conversation: int, message: int) -> None:
        """Remove a message and all that follow it."""
        self._run("delete from messages where conversation = ? and id >= ?", conversation, message)

    def _touch(self, conversation: int) -> None:
        self._run("update conversations set updated = ? where id = ?", time.time(), conversation)

    def _run(self, statement: str, *values: Any) -> int:
        with self._lock, closing(self._connection.execute(statement, values)) as cursor:
            return int(cursor.lastrowid or 0)

    def _all(self, query: str, *values: Any) -> list[Any]:
        with self._lock, closing(self._connection.execute(query, values)) as cursor:
            return cursor.fetchall()
