"""Versions of messages: what makes another path of a conversation, and chooses among them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from app.asking import Asking
from app.attachments.stored import FileList
from app.conversations import Conversations
from app.session import Event, Session
from app.stored_message import StoredMessage
from app.writing import Writer
from engine.data.errors import BadOptionError


class Branches:
    """lock: held around every change and what pages are told of it, in that order.

    publish: tells the pages that show a conversation. announce: tells all of the list of them.
    """

    def __init__(
        self,
        store: Conversations,
        asking: Asking,
        writer: Writer,
        publish: Callable[[int, Event], None],
        announce: Callable[[], None],
        lock: threading.RLock,
    ) -> None:
        self._store = store
        self._asking = asking
        self._writer = writer
        self._publish = publish
        self._announce = announce
        self._lock = lock

    def regenerate(self, session: Session, message: int) -> None:
        """Another version of a reply."""
        with self._lock:
            conversation = self._asking.conversation_of(message)
            self._asking.require_ready(conversation)
            reply = self._message(message)
            if reply.role != "assistant":
                raise BadOptionError("that is a message of yours: write its reply again instead")
            parent = reply.parent
            if parent is None:
                raise BadOptionError("that reply answers nothing: write a message instead")
            with self._store.atomic():
                start = self._asking.prepare(conversation, parent)
            self._publish(conversation, {"k": "after", "m": parent})
            self._writer.start(session, start)

    def files(self, message: int) -> list[dict[str, Any]]:
        """What goes with a message, for the page: without the texts."""
        keys = ("sha256", "name", "kind", "bytes")
        return [
            {key: getattr(one, key) for key in keys} for one in self._store.attachments(message)
        ]

    def edit(
        self, session: Session, message: int, text: str, files: FileList | None = None
    ) -> None:
        """Another version of a user's message, and a reply to it. files: None keeps its files."""
        require_text(text)
        with self._lock:
            conversation = self._asking.conversation_of(message)
            self._asking.require_ready(conversation)
            asked = self._message(message)
            if asked.role != "user":
                raise BadOptionError("that is a reply: edit it as one")
            parent = asked.parent
            with self._store.atomic():
                new = self._store.add_user(conversation, text, parent)
                kept = [(one.sha256, one.name) for one in self._store.attachments(message)]
                self._store.attach(new, kept if files is None else files)
                start = self._asking.prepare(conversation, new)
            self._publish(conversation, {"k": "after", "m": parent})
            told = {"k": "user", "m": new, "text": text, "files": self.files(new)}
            self._publish(conversation, told | self.place(new))
            self._writer.start(session, start)

    def edit_reply(self, message: int, text: str) -> None:
        """Another version of a reply, as the user wrote it."""
        require_text(text)
        with self._lock:
            conversation = self._asking.conversation_of(message)
            self._asking.require_free(conversation)
            reply = self._message(message)
            if reply.role != "assistant":
                raise BadOptionError("that is a message of yours: edit it and send it again")
            if reply.content == text:
                return
            details = {"model": "", "drafters": [], "notices": [], "finish": "edited"}
            tokens = [[text, "p", None, None, None, None]]
            with self._store.atomic():
                self._store.add_reply(conversation, reply.parent, text, tokens, details)
            self._publish(conversation, {"k": "changed"})

    def select(self, message: int) -> None:
        """Show this version, and what was last written below it."""
        with self._lock:
            conversation = self._asking.conversation_of(message)
            self._store.select(message)
            self._publish(conversation, {"k": "changed"})

    def versions(self, message: int) -> dict[str, Any]:
        """To compare them: every version with its text and its figures."""
        with self._lock:
            self._asking.conversation_of(message)
            found = [self._writer.latest(one) for one in self._store.versions(message)]
            return {
                "versions": [
                    {"id": one.id, "content": one.content, "details": one.details} for one in found
                ]
            }

    def subtree(self, message: int) -> dict[str, Any]:
        """How many messages a deletion would take."""
        with self._lock:
            self._asking.conversation_of(message)
            return {"messages": self._store.count_below(message)}

    def delete(self, message: int) -> dict[str, Any]:
        """With all that follows it. A reply that is being written there is stopped."""
        with self._lock:
            conversation = self._asking.conversation_of(message)
            live = self._writer.reply(conversation)
            gone = self._store.delete(message)
            if live is not None and self._store.conversation_of(live.message) is None:
                self._writer.stop(conversation)
            self._publish(conversation, {"k": "changed"})
        return {"messages": gone}

    def restore(self, message: int) -> None:
        with self._lock:
            conversation = self._store.restore(message)
            if conversation is None:
                raise BadOptionError("that message is gone, or what it answers is")
            self._publish(conversation, {"k": "changed"})

    def fork(self, message: int) -> dict[str, Any]:
        """A new conversation of the path down to this message."""
        with self._lock:
            source = self._asking.conversation_of(message)
            self._asking.require_free(source)
            with self._store.atomic():
                made = self._store.create_like(source).id
                self._store.copy_path(message, made)
            self._announce()
        return {"conversation": made}

    def place(self, message: int) -> dict[str, Any]:
        """Where a new message stands, for the pages."""
        parent, versions = self._store.place(message)
        return {"parent": parent, "versions": list(versions)}

    def _message(self, message: int) -> StoredMessage:
        found = self._store.message(message)
        if found is None:
            raise BadOptionError("that message is gone; reload the page")
        return found


def require_text(text: str) -> None:
    if not text.strip():
        raise BadOptionError("write a message first")
