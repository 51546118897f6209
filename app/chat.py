"""Conversations in motion: send, stop, regenerate, edit, and what each page is shown of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from app.characters.card import Character
from app.conversations import Conversations, StoredMessage
from app.exchange.chat_rows import TREE
from app.names import Names, drafters_in
from app.preferences import PreferencesFile
from app.presets import PresetsFile
from app.session import Event, Session, Sessions
from app.settings import EARLIER_CHARACTERS
from app.shelf import Shelf
from app.thoughts import thought_of
from app.writing import ReplyStart, Writer
from engine.data.errors import BadOptionError, RequestError, RunError
from engine.data.request import Message
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
        self._engine = engine
        self._store = store
        self._presets = presets
        self.shelf = Shelf(store)
        self._preferences = preferences
        self._sessions = sessions
        self._names = names
        self._lock = threading.RLock()
        self._writer = Writer(engine, store, self._publish, self._lock)

    @property
    def problem(self) -> str:
        """What was wrong with the file of the conversations."""
        return self._store.problem

    def open(
        self, session: Session, conversation: int | None, order: int | None = None
    ) -> dict[str, Any]:
        """What the page draws; the conversation's events from number `seq` on come after it.

        order: the page's number of the request; a later one may have been answered before.
        """
        with self._lock:
            if conversation is not None and not self._store.exists(conversation):
                conversation = None
            stored = () if conversation is None else self._store.messages(conversation)
            session.show(conversation, order)
            drawn = [self._drawn(message) for message in stored]
            named = [one for message in drawn for one in drafters_in(message["details"])]
            return {
                "conversation": conversation,
                "messages": drawn,
                "names": self._names.table(named),
                "own": conversation is not None and self.shelf.own(conversation).is_set,
                "seq": session.head,
            }

    def send(
        self, session: Session, conversation: int | None, text: str, order: int | None = None
    ) -> dict[str, Any]:
        """Adds the user's message and starts the reply; creates the conversation if None."""
        if not text.strip():
            raise BadOptionError("write a message first")
        with self._lock:
            self._require_ready(conversation)
            with self._store.atomic():
                if conversation is None or not self._store.exists(conversation):
                    conversation = self._store.create(text).id
                    self.shelf.set_own(conversation, self._presets.of_new_chats())
                self.shelf.name(conversation, text)
                message = self._store.add_user(conversation, text)
                start = self._prepare(conversation)
            session.show(conversation, order)
            self._publish(conversation, {"k": "user", "m": message, "text": text})
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

    def regenerate(self, session: Session, message: int) -> None:
        """Replaces a reply, and what followed it, by a new one."""
        with self._lock:
            conversation = self._conversation_of(message)
            self._require_ready(conversation)
            with self._store.atomic():
                self._store.cut(conversation, message)
                start = self._prepare(conversation)
            self._publish(conversation, {"k": "cut", "m": message})
            self._writer.start(session, start)

    def edit(self, session: Session, message: int, text: str) -> None:
        """Replaces a user's message; the later messages go, and a new reply is written."""
        if not text.strip():
            raise BadOptionError("write a message first")
        with self._lock:
            conversation = self._conversation_of(message)
            self._require_ready(conversation)
            with self._store.atomic():
                self._store.cut(conversation, message)
                new = self._store.add_user(conversation, text)
                start = self._prepare(conversation)
            self._publish(conversation, {"k": "cut", "m": message})
            self._publish(conversation, {"k": "user", "m": new, "text": text})
            self._writer.start(session, start)

    def bring_back(self, reply: int) -> None:
        """What an unfinished reply took the place of, instead of it."""
        with self._lock:
            conversation = self._conversation_of(reply)
            self._require_free(conversation)
            if not self._store.bring_back(reply):
                raise BadOptionError("what was there before cannot be brought back any more")
            self._publish(conversation, {"k": "changed"})

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

    def _conversation_of(self, message: int) -> int:
        conversation = self._store.conversation_of(message)
        if conversation is None:
            raise BadOptionError("that message is gone; reload the page")
        return conversation

    def _require_ready(self, conversation: int | None) -> None:
        if self._engine.loaded is None:
            raise RequestError("no model is loaded: choose a target above and press Load")
        self._require_free(conversation)

    def _require_free(self, conversation: int | None) -> None:
        """What is asked of a conversation changes what is stored of it."""
        if conversation is None:
            return
        if self._writer.reply(conversation) is not None:
            raise RequestError("a reply is still being written here: stop it first")
        unsaved = self._writer.save_again(conversation)
        if unsaved:
            raise RequestError(f"the last reply here could not be saved yet: {unsaved}")

    def _prepare(self, conversation: int) -> ReplyStart:
        """The request and the empty reply; part of the change that makes room for it."""
        history = _history(self._store.messages(conversation))
        if not history:
            raise BadOptionError("there is nothing to answer: a greeting is not the model's own")
        own = self.shelf.own(conversation)
        settings = own.applied(self._preferences.current.settings)
        earlier: tuple[str, ...] = ()
        if settings.earlier_chats == "on":
            earlier = self._store.texts_of_others(conversation, EARLIER_CHARACTERS)
        loaded = self._engine.loaded
        request = settings.generate_request(
            own.spoken(history),
            earlier,
            None if loaded is None else loaded.reasoning,
        )
        return ReplyStart(conversation, self._store.start_reply(conversation), request)

    def _drawn(self, message: StoredMessage) -> dict[str, Any]:
        """A reply in memory is further than its stored form; no other one is being written.

        One that has just ended is over when the way is free for the next: a page that is told so
        may send at once.
        """
        live = self._writer.in_memory(message.id)
        if live is None:
            details = {key: value for key, value in message.details.items() if key != TREE}
            return asdict(replace(message, details=details)) | {"streaming": False}
        drawn = {"tokens": list(live.tokens), "details": dict(live.details)}
        is_active = self._writer.reply(live.conversation) is live
        return asdict(message) | drawn | {"streaming": is_active}

    def _publish(self, conversation: int, event: Event) -> None:
        """With what the drafters are called that it names."""
        drafters = drafters_in(event.get("details", event))
        named = {"names": self._names.table(drafters)} if drafters else {}
        self._sessions.to_conversation(conversation, event | named)


def _history(messages: Sequence[StoredMessage]) -> tuple[Message, ...]:
    """User and assistant in turn: a failed reply leaves two user messages to join.

    A message that was refused as too long stays out, or every later one would be refused too.
    """
    told: list[StoredMessage] = []
    for message in messages:
        if message.content:
            told.append(message)
        elif message.details.get("error", {}).get("kind") == "ContextLengthError":
            told.pop()
    history: list[Message] = []
    for message in told:
        if history and history[-1].role == message.role:
            joined = f"{history[-1].content}\n\n{message.content}"
            history[-1] = Message(message.role, joined)
        else:
            thought = thought_of(message.tokens, message.details)
            history.append(Message(message.role, message.content, thought))
    return tuple(history)
