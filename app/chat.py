"""Conversations in motion: send, stop, and what each page is shown of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from app.asking import Asking
from app.attachments.stored import FileList
from app.branches import Branches, require_text
from app.characters.card import Character
from app.continuing import Continuing
from app.conversations import Conversations
from app.names import Names, drafters_in
from app.preferences import PreferencesFile
from app.presets import PresetsFile
from app.session import Event, Session, Sessions
from app.shelf import Shelf
from app.stored_message import StoredMessage
from app.writing import Writer
from engine.data.errors import BadOptionError, RunError
from engine.data.request import GenerateRequest
from engine.process.protocols import Generator

FIRST_PAGE = 200
"""Conversations in a page's list before the user asks for more."""


class Chat:
    """One lock orders everything a page sees of a conversation: snapshot, then events."""

    def __init__(
        self,
        engine: Generator,
        store: Conversations,
        preferences: PreferencesFile,
        sessions: Sessions,
        names: Names,
        presets: PresetsFile,
    ) -> None:
        self._store = store
        self._presets = presets
        self.shelf = Shelf(store)
        self._sessions = sessions
        self._names = names
        self._lock = threading.RLock()
        self._writer = Writer(engine, store, self._publish, self._lock)
        self._asking = Asking(engine, store, preferences, self._writer, self.shelf)
        self.branches = Branches(
            store, self._asking, self._writer, self._publish, self.announce, self._lock
        )
        self.continuing = Continuing(store, self._asking, self._writer, self._lock)

    @property
    def problem(self) -> str:
        """What was wrong with the file of the conversations."""
        return self._store.problem

    def open(
        self, session: Session, conversation: int | None, order: int | None = None
    ) -> dict[str, Any]:
        """What the page draws; the conversation's events from number `seq` on come after it.
        writing: the reply that is being written, which another version may hide.

        order: the page's number of the request; a later one may have been answered before.
        """
        with self._lock:
            if conversation is not None and not self._store.exists(conversation):
                conversation = None
            stored = () if conversation is None else self._store.messages(conversation)
            session.show(conversation, order)
            drawn = [self._drawn(message) for message in stored]
            named = [one for message in drawn for one in drafters_in(message["details"])]
            live = self._writer.reply(conversation)
            return {
                "conversation": conversation,
                "messages": drawn,
                "writing": None if live is None else live.message,
                "names": self._names.table(named),
                "own": conversation is not None and self.shelf.own(conversation).is_set,
                "seq": session.head,
            }

    def send(
        self,
        session: Session,
        conversation: int | None,
        text: str,
        files: FileList = (),
        order: int | None = None,
    ) -> dict[str, Any]:
        """Adds the user's message and starts the reply; creates the conversation if None."""
        require_text(text)
        with self._lock:
            self._asking.require_ready(conversation)
            with self._store.atomic():
                if conversation is None or not self._store.exists(conversation):
                    conversation = self._store.create(text).id
                    self.shelf.set_own(conversation, self._presets.of_new_chats())
                self.shelf.name(conversation, text)
                message = self._store.add_user(conversation, text)
                self._store.attach(message, files)
                start = self._asking.prepare(conversation, message)
            session.show(conversation, order)
            told = {"k": "user", "m": message, "text": text} | self.branches.place(message)
            told["files"] = self.branches.files(message)
            self._publish(conversation, told)
            self._writer.start(session, start)
        self.announce()
        return {"conversation": conversation}

    def greet(self, conversation: int, character: Character) -> None:
        """A chat that was not begun yet begins with what the character says."""
        with self._lock:
            if not self.shelf.greet(conversation, character.name, character.greetings):
                return
            self._publish(conversation, {"k": "changed"})
        self.announce()

    def request_with(
        self, conversation: int | None, text: str, files: FileList = ()
    ) -> GenerateRequest | None:
        """See Asking."""
        with self._lock:
            return self._asking.request_with(conversation, text, files)

    def save_again(self) -> None:
        """Replies that could not be stored; RunError when they still cannot."""
        with self._lock:
            reason = self._writer.save_again()
        if reason:
            raise RunError(f"the reply still cannot be saved: {reason}")

    @property
    def is_writing(self) -> bool:
        """Whether any conversation's reply is being written or queued."""
        return self._writer.is_writing

    def stop(self, conversation: int) -> None:
        with self._lock:
            self._writer.stop(conversation)

    def answer_now(self, conversation: int) -> None:
        """The reply that is being written there ends its thought."""
        with self._lock:
            self._writer.answer_now(conversation)

    def leave(self, session: Session) -> None:
        """The page is gone for good: its runs stop unless another page goes on with them."""
        with self._lock:
            self._sessions.close(session.id)
            self._writer.leave(session, partial(self._sessions.heir, session))

    def close(self) -> None:
        """Stops everything and waits until the replies are saved."""
        self._writer.close()

    def delete(self, conversation: int) -> None:
        self.stop(conversation)
        self._store.set_deleted(conversation, True)
        self.announce()

    def restore(self, conversation: int) -> None:
        if not self._store.set_deleted(conversation, False):
            raise BadOptionError("that chat is gone: it was deleted before the last start")
        self.announce()

    def rename(self, conversation: int, title: str) -> None:
        cleaned = " ".join(title.split())[:200]
        if not cleaned:
            raise BadOptionError("a title needs at least one letter")
        if not self._store.rename(conversation, cleaned):
            raise BadOptionError("that chat is gone; reload the page")
        self.announce()

    def conversations(
        self, search: str = "", limit: int = FIRST_PAGE, closed: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The first so many that are found, and whether there are more; all folders."""
        found = self._store.find(search, limit + 1, closed)
        items = [asdict(conversation) for conversation in found[:limit]]
        return {"items": items, "more": len(found) > limit, "folders": self.shelf.folders()}

    def announce(self) -> None:
        """In the order of the changes: the last list that pages are told of is the newest."""
        with self._lock:
            self._sessions.broadcast({"k": "conversations"} | self.conversations())

    def _drawn(self, message: StoredMessage) -> dict[str, Any]:
        """A reply in memory is further than its stored form; no other one is being written.

        One that has just ended is over when the way is free for the next: a page that is told so
        may send at once.
        """
        latest = self._writer.latest(message)
        live = self._writer.in_memory(message.id)
        is_active = live is not None and self._writer.reply(live.conversation) is live
        files = self.branches.files(message.id) if message.role == "user" else []
        return latest.to_json() | {"streaming": is_active, "files": files}

    def _publish(self, conversation: int, event: Event) -> None:
        """With what the drafters are called that it names, and where a new reply stands."""
        if event["k"] == "start":
            event = event | self.branches.place(event["m"])
        drafters = drafters_in(event.get("details", event))
        named = {"names": self._names.table(drafters)} if drafters else {}
        self._sessions.to_conversation(conversation, event | named)
