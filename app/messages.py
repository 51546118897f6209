"""The messages of all conversations: trees, of which each conversation shows one path.

Nothing takes the place of anything: an edit and a new reply are versions beside what was there.
A reply is written while it streams, so that whatever ends this process loses a second at most.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.attachments.stored import StoredFiles
from app.message_tree import (
    PATH,
    newest_leaf,
    newest_sibling,
    path_to,
    subtree,
    versions_along,
)
from app.stored_message import (
    COLUMNS,
    MessageRole,
    StoredMessage,
    parsed_details,
    stored_message,
)
from app.wire import WireToken
from engine.data.documents import compact_json, sendable

_ON_PATHS = """
with recursive up (id, parent) as (
    select m.id, m.parent from conversations c join messages m on m.id = c.current
    where not c.deleted and c.id != :but
    union all select m.id, m.parent from messages m join up on m.id = up.parent
)
"""
"""The messages that are shown, in all conversations but one."""


END = 0
"""As a parent: what the path ends with. No message has this number."""


class Messages(StoredFiles):
    # Reading

    def messages(self, conversation: int) -> tuple[StoredMessage, ...]:
        """The path that is shown, from the first message on; what the system says stays out."""
        with self._lock:
            last = self.current(conversation)
            if last is None:
                return ()
            path = self.path_to(last)
            numbers = tuple(message.id for message in path)
            versions = versions_along(self._connection, conversation, numbers)
        return tuple(replace(message, versions=versions[message.id]) for message in path)

    def path_to(self, message: int) -> tuple[StoredMessage, ...]:
        """From the first message down to this one; what the system says stays out."""
        with self._lock:
            rows = self._connection.execute(
                f"{PATH} select {_qualified(COLUMNS)} from up join messages m on m.id = up.id"
                " where m.role != 'system' order by m.id",
                {"message": message},
            ).fetchall()
        return tuple(stored_message(row) for row in rows)

    def message(self, message: int) -> StoredMessage | None:
        rows = self._all(f"select {COLUMNS} from messages where id = ? and not deleted", message)
        return stored_message(rows[0]) if rows else None

    def versions(self, message: int) -> tuple[StoredMessage, ...]:
        """All that follow the same message as this one, itself among them, the oldest first."""
        rows = self._all(
            f"select {_qualified(COLUMNS)} from messages m join messages o on o.id = ?"
            " where m.conversation = o.conversation and m.parent is o.parent"
            " and not m.deleted and m.role != 'system' order by m.id",
            message,
        )
        numbers = tuple(row[0] for row in rows)
        return tuple(stored_message(row, numbers) for row in rows)

    def place(self, message: int) -> tuple[int | None, tuple[int, ...]]:
        """What it follows, and the numbers of all that follow the same, itself among them."""
        rows = self._all(
            "select o.parent, m.id from messages o join messages m"
            " on m.conversation = o.conversation and m.parent is o.parent"
            " where o.id = ? and not m.deleted and m.role != 'system' order by m.id",
            message,
        )
        return rows[0][0], tuple(row[1] for row in rows)

    def current(self, conversation: int) -> int | None:
        """The message that the shown path ends with."""
        rows = self._all("select current from conversations where id = ?", conversation)
        return None if not rows or rows[0][0] is None else int(rows[0][0])

    def conversation_of(self, message: int) -> int | None:
        """None for a message that was deleted, too."""
        rows = self._all("select conversation from messages where id = ? and not deleted", message)
        return int(rows[0][0]) if rows else None

    def count_below(self, message: int) -> int:
        """It and all that follows it, on any path."""
        with self._lock:
            return len(subtree(self._connection, message))

    def texts_of_others(self, conversation: int, characters: int) -> tuple[str, ...]:
        """Messages that the other chats show, the newest up to so many characters, the newest
        last."""
        with self._lock:
            rows = self._connection.execute(
                f"{_ON_PATHS} select content from (select m.id, m.content, sum(length(m.content))"
                " over (order by m.id desc) as reached from up join messages m on m.id = up.id"
                " where not m.streaming and m.content != '' and m.role != 'system')"
                " where reached <= :characters order by id",
                {"but": conversation, "characters": characters},
            ).fetchall()
        return tuple(row[0] for row in rows)

    def recent_prompts(self, limit: int) -> tuple[str, ...]:
        """What the user wrote last, newest first, as the conversations that are kept show it."""
        with self._lock:
            rows = self._connection.execute(
                f"{_ON_PATHS} select m.content from up join messages m on m.id = up.id"
                " where m.role = 'user' order by m.id desc limit :limit",
                {"but": -1, "limit": limit},
            ).fetchall()
        return tuple(str(row[0]) for row in rows)

    def recent_details(self, limit: int) -> tuple[dict[str, Any], ...]:
        """Of the last complete replies, newest first, in all conversations that are kept."""
        rows = self._all(
            "select m.details from messages m join conversations c on c.id = m.conversation"
            " where m.role = 'assistant' and not m.streaming and not m.deleted and not c.deleted"
            " order by m.id desc limit ?",
            limit,
        )
        return tuple(parsed_details(row[0]) for row in rows)

    # Writing

    def add_user(self, conversation: int, content: str, parent: int | None = END) -> int:
        """What follows nothing (None) is another first message. The path ends with it then."""
        self._touch(conversation)
        return self._add(conversation, parent, "user", content)

    def start_reply(self, conversation: int, parent: int | None = END) -> int:
        """An empty one that is being written; the path ends with it then."""
        return self._add(conversation, parent, "assistant", "", streaming=True)

    def add_reply(
        self,
        conversation: int,
        parent: int | None,
        content: str,
        tokens: Sequence[WireToken],
        details: dict[str, Any],
    ) -> int:
        """A complete one that nobody drafted."""
        reply = self._add(conversation, parent, "assistant", content)
        self.save_reply(reply, content, tokens, details, False)
        return reply

    def save_reply(
        self,
        message: int,
        content: str,
        tokens: Sequence[WireToken],
        details: dict[str, Any],
        streaming: bool,
    ) -> None:
        self._run(
            "update messages set content = ?, tokens = ?, details = ?, streaming = ? where id = ?",
            content,
            compact_json(tokens),
            json.dumps(sendable(details), ensure_ascii=False),
            streaming,
            message,
        )

    def ids_of(self, message: int) -> str:
        """See app/token_ids.py."""
        rows = self._all("select ids from messages where id = ?", message)
        return str(rows[0][0]) if rows else "{}"

    def save_ids(self, message: int, ids: str) -> None:
        self._run("update messages set ids = ? where id = ?", ids, message)

    def select(self, message: int) -> None:
        """The path leads over it, to the newest message below it."""
        with self.atomic() as connection:
            self._show(message, newest_leaf(connection, message))

    def delete(self, message: int) -> int:
        """It and all that follows it, until the next start; the path then leads over the newest
        other version, or ends before it. How many messages that is."""
        with self.atomic() as connection:
            gone = subtree(connection, message)
            row = connection.execute(
                "select m.parent, c.current, c.id from messages m join conversations c"
                " on c.id = m.conversation where m.id = ?",
                (message,),
            ).fetchone()
            marks = [(message, one) for one in gone]
            connection.executemany("update messages set deleted = ? where id = ?", marks)
            parent, current, conversation = row
            if current in gone:
                sibling = newest_sibling(connection, message)
                last = parent if sibling is None else newest_leaf(connection, sibling)
                connection.execute(
                    "update conversations set current = ? where id = ?", (last, conversation)
                )
        return len(gone)

    def restore(self, message: int) -> int | None:
        """What `delete` took; its conversation. None when it is gone, or what it follows is."""
        with self.atomic() as connection:
            row = connection.execute(
                "select m.conversation from messages m left join messages p on p.id = m.parent"
                " where m.id = ? and m.deleted = m.id and not coalesce(p.deleted, 0)",
                (message,),
            ).fetchone()
            if row is None:
                return None
            connection.execute("update messages set deleted = 0 where deleted = ?", (message,))
            self._show(message, newest_leaf(connection, message))
        return int(row[0])

    def copy_path(self, message: int, conversation: int) -> None:
        """From the first message down to this one, with all that belongs to them."""
        with self.atomic() as connection:
            parent: int | None = None
            for one in path_to(connection, message):
                parent = connection.execute(
                    "insert into messages (conversation, parent, role, content, tokens, details,"
                    " created, reasoning, ids) select ?, ?, role, content, tokens, details,"
                    " created, reasoning, ids from messages where id = ?",
                    (conversation, parent, one),
                ).lastrowid
                connection.execute(
                    "insert into attachments (message, place, name, sha256)"
                    " select ?, place, name, sha256 from attachments where message = ?",
                    (parent, one),
                )
            self._show(int(parent or 0), int(parent or 0))

    def _add(
        self,
        conversation: int,
        parent: int | None,
        role: MessageRole,
        content: str,
        streaming: bool = False,
    ) -> int:
        with self._lock:
            above = self.current(conversation) if parent == END else parent
            message = self._run(
                "insert into messages (conversation, parent, role, content, streaming, created)"
                " values (?, ?, ?, ?, ?, ?)",
                *(conversation, above, role, content, streaming, time.time()),
            )
            self._show(message, message)
        return message

    def _show(self, message: int, leaf: int) -> None:
        self._run(
            "update conversations set current = ? where id ="
            " (select conversation from messages where id = ?)",
            *(leaf, message),
        )

    def _touch(self, conversation: int) -> None:
        self._run("update conversations set updated = ? where id = ?", time.time(), conversation)


def _qualified(columns: str) -> str:
    return ", ".join(f"m.{name.strip()}" for name in columns.split(","))
