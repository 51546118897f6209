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
from typing import Any, Literal, TypeVar

from app import search
from app.chat_file import advice, open_chat_file, transaction
from app.wire import WireToken
from engine.data.documents import sendable

log = logging.getLogger(__name__)
MessageRole = Literal["user", "assistant"]
TITLE_LENGTH = 60
Parsed = TypeVar("Parsed", list[Any], dict[str, Any])
_KEPT = "id, conversation, role, content, tokens, details"
_LOST_TRACE = "The record of how this reply was drafted is damaged; its text is complete."


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
        """problem: what the user has to know of the file, "" when all is well."""
        self._lock = threading.RLock()
        opened = open_chat_file(path)
        self._connection = opened.connection
        self.problem = opened.problem
        search.prepare(self._connection)
        try:
            self._recover()
        except sqlite3.OperationalError as error:
            # A full disk, say: what is there can be read, and the next start does it.
            self.problem = (
                f"{self.problem} Chats cannot be saved: {error} ({advice(error)}).".strip()
            )

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def atomic(self) -> Iterator[sqlite3.Connection]:
        """All changes made inside happen, or none: nothing is lost when the disk is full."""
        with self._lock, transaction(self._connection):
            yield self._connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Nothing changes meanwhile: keep it short."""
        with self._lock:
            yield self._connection

    def _recover(self) -> None:
        """After a crash: replies still marked as streaming were interrupted. Empty the bin."""
        rows = self._all(
            "select id, details, exists (select 1 from replaced where reply = messages.id)"
            " from messages where streaming"
        )
        for message_id, details, replaces in rows:
            interrupted = {**_read_details(details), "finish": "interrupted"}
            if replaces:
                interrupted["earlier"] = True
            self._run(
                "update messages set streaming = 0, details = ? where id = ?",
                json.dumps(interrupted),
                message_id,
            )
        self._run("delete from conversations where deleted")

    def create(self, first_message: str) -> Conversation:
        title, now = title_of(first_message) or "New chat", time.time()
        new_id = self._run("insert into conversations (title, updated) values (?, ?)", title, now)
        return Conversation(new_id, title, now)

    def find(self, text: str = "", limit: int = 500) -> tuple[Conversation, ...]:
        """Newest first; looks in titles and messages, whatever the case."""
        wanted = search.fold(text)
        with self._lock:
            if wanted:
                search.catch_up(self._connection)
            rows = self._connection.execute(search.FIND, {"wanted": wanted, "limit": limit})
            return tuple(Conversation(*row) for row in rows)

    def exists(self, conversation: int) -> bool:
        query = "select 1 from conversations where id = ? and not deleted"
        return bool(self._all(query, conversation))

    def rename(self, conversation: int, title: str) -> bool:
        """False when it is gone."""
        return self._change("update conversations set title = ? where id = ?", title, conversation)

    def set_deleted(self, conversation: int, deleted: bool) -> bool:
        """Deleting can be undone until the next start; False when it is gone."""
        change = "update conversations set deleted = ? where id = ?"
        return self._change(change, deleted, conversation)

    def messages(self, conversation: int) -> tuple[StoredMessage, ...]:
        rows = self._all(
            "select id, role, content, tokens, details, streaming from messages"
            " where conversation = ? order by id",
            conversation,
        )
        return tuple(stored_message(*row) for row in rows)

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

    def recent_details(self, limit: int) -> tuple[dict[str, Any], ...]:
        """Of the last complete replies, newest first, in all conversations that are kept."""
        rows = self._all(
            "select m.details from messages m join conversations c on c.id = m.conversation"
            " where m.role = 'assistant' and not m.streaming and not c.deleted"
            " order by m.id desc limit ?",
            limit,
        )
        return tuple(_read_details(row[0]) for row in rows)

    def add_user(self, conversation: int, content: str) -> int:
        self._touch(conversation)
        return self._run(
            "insert into messages (conversation, role, content) values (?, 'user', ?)",
            conversation,
            content,
        )

    def start_reply(self, conversation: int) -> int:
        reply = self._run(
            "insert into messages (conversation, role, content, streaming)"
            " values (?, 'assistant', '', 1)",
            conversation,
        )
        self._run(
            "update replaced set reply = ? where conversation = ? and reply = 0",
            reply,
            conversation,
        )
        return reply

    def replaces(self, reply: int) -> bool:
        """Whether there is something that `bring_back` could bring back."""
        return bool(self._all("select 1 from replaced where reply = ? limit 1", reply))

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
        """A message and all that follow it make way for the reply that is started next. They can be
        brought back until it is settled: nothing goes before the new is stored."""
        which = "conversation = ? and id >= ?"
        self._run(
            f"insert into replaced (reply, {_KEPT}) select 0, {_KEPT} from messages where {which}",
            conversation,
            message,
        )
        self._run(f"delete from messages where {which}", conversation, message)

    def bring_back(self, reply: int) -> bool:
        """What an unsettled reply took the place of, instead of it. False when there is nothing, or
        when messages followed, which would go."""
        with self.atomic():
            rows = self._all(
                "select conversation, max(id) from replaced where reply = ? group by 1", reply
            )
            if not rows or self._last(rows[0][0]) != reply:
                return False
            conversation, last = rows[0]
            self._run("delete from messages where conversation = ? and id > ?", conversation, last)
            self._run(
                f"insert into messages ({_KEPT}) select {_KEPT} from replaced where reply = ?",
                reply,
            )
            self._run("delete from replaced where reply = ?", reply)
        return True

    def settle(self, reply: int) -> None:
        """It is complete: what it replaced goes, and what that had replaced and never settled."""
        self._run(
            "with recursive gone (id) as (select ? union select r.id from replaced r join gone g"
            " on r.reply = g.id) delete from replaced where reply in (select id from gone)",
            reply,
        )

    def _last(self, conversation: int) -> int:
        found = self._all("select max(id) from messages where conversation = ?", conversation)
        return int(found[0][0] or 0)

    def _touch(self, conversation: int) -> None:
        self._run("update conversations set updated = ? where id = ?", time.time(), conversation)

    def _change(self, statement: str, *values: Any) -> bool:
        with self._lock, closing(self._connection.execute(statement, values)) as cursor:
            return cursor.rowcount > 0

    def _run(self, statement: str, *values: Any) -> int:
        with self._lock, closing(self._connection.execute(statement, values)) as cursor:
            return int(cursor.lastrowid or 0)

    def _all(self, query: str, *values: Any) -> list[Any]:
        with self._lock, closing(self._connection.execute(query, values)) as cursor:
            return cursor.fetchall()


def title_of(first_message: str) -> str:
    """Its first words, "" when it has none."""
    words = " ".join(first_message.split())
    return words[:TITLE_LENGTH].rstrip() + ("…" if len(words) > TITLE_LENGTH else "")


def stored_message(
    identity: int, role: MessageRole, content: str, tokens: str, details: str, streaming: int
) -> StoredMessage:
    """A column that cannot be read costs what was in it, not the chat: the text is there twice."""
    trace, known = _read_tokens(tokens), _read_details(details)
    if role == "assistant" and content and not trace:
        trace = [[content, "p", None, None, None, None]]
        known["notices"] = [*known.get("notices", ()), _LOST_TRACE]
    return StoredMessage(identity, role, content, trace, known, bool(streaming))


def _read_tokens(stored: str) -> list[WireToken]:
    """None of them if one is no token."""
    tokens = _parsed(stored, list)
    sound = all(isinstance(one, list) and len(one) >= 6 and type(one[0]) is str for one in tokens)
    return tokens if sound else []


def _read_details(stored: str) -> dict[str, Any]:
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
