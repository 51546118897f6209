"""Conversations in motion: send, stop, regenerate, edit, and what each page is shown of it."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from app.conversations import Conversations, StoredMessage
from app.preferences import PreferencesFile
from app.replies import LiveReply
from app.session import Event, Session, Sessions
from app.settings import EARLIER_CHARACTERS
from engine.errors import BadOptionError, EngineError, RequestError
from engine.events import RunEvent
from engine.process.messages import LoadedSummary
from engine.request import GenerateRequest, Message

POLL_SECONDS = 0.25


class RunHandle(Protocol):
    """A run of the engine, as `engine.process.client.Run`."""

    def next_event(self, timeout: float | None = None) -> RunEvent | None: ...

    def cancel(self) -> None: ...


class Generator(Protocol):
    """The part of `engine.process.client.EngineClient` that writes replies."""

    @property
    def loaded(self) -> LoadedSummary | None: ...

    def generate(self, request: GenerateRequest) -> RunHandle: ...


@dataclass(frozen=True, slots=True)
class ReplyStart:
    """A reply that is stored, still empty, and what it is to answer."""

    conversation: int
    message: int
    request: GenerateRequest


class ActiveRun:
    """A reply being written, its run once the engine has taken it, and the page that asked."""

    def __init__(self, reply: LiveReply, session: Session) -> None:
        self.reply = reply
        self.session = session
        self.run: RunHandle | None = None
        self.cancelled = False
        self.thread: threading.Thread | None = None


class Chat:
    """One lock orders everything a page sees of a conversation: snapshot, then events."""

    def __init__(
        self,
        engine: Generator,
        store: Conversations,
        preferences: PreferencesFile,
        sessions: Sessions,
    ) -> None:
        self._engine = engine
        self._store = store
        self._preferences = preferences
        self._sessions = sessions
        self._active: dict[int, ActiveRun] = {}
        self._lock = threading.RLock()

    def open(self, session: Session, conversation: int | None) -> dict[str, Any]:
        """What the page draws; the conversation's events from number `seq` on come after it."""
        with self._lock:
            if conversation is not None and not self._store.exists(conversation):
                conversation = None
            session.conversation = conversation
            stored = () if conversation is None else self._store.messages(conversation)
            return {
                "conversation": conversation,
                "messages": [self._drawn(m, self._active.get(conversation or 0)) for m in stored],
                "seq": session.head,
            }

    def send(self, session: Session, conversation: int | None, text: str) -> dict[str, Any]:
        """Adds the user's message and starts the reply; creates the conversation if None."""
        if not text.strip():
            raise BadOptionError("write a message first")
        with self._lock:
            self._require_ready(conversation)
            with self._store.atomic():
                if conversation is None or not self._store.exists(conversation):
                    conversation = self._store.create(text).id
                message = self._store.add_user(conversation, text)
                start = self._prepare(conversation)
            session.conversation = conversation
            self._publish(conversation, {"k": "user", "m": message, "text": text})
            self._start(session, start)
        self.announce()
        return {"conversation": conversation}

    def regenerate(self, session: Session, message: int) -> None:
        """Replaces a reply, and what followed it, by a new one."""
        with self._lock:
            conversation = self._conversation_of(message)
            self._require_ready(conversation)
            with self._store.atomic():
                self._store.cut(conversation, message)
                start = self._prepare(conversation)
            self._publish(conversation, {"k": "cut", "m": message})
            self._start(session, start)

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
            self._start(session, start)

    @property
    def is_writing(self) -> bool:
        """Whether any conversation's reply is being written or queued."""
        with self._lock:
            return bool(self._active)

    def stop(self, conversation: int) -> None:
        with self._lock:
            active = self._active.get(conversation)
            if active is None:
                return
            active.cancelled = True
            if active.run is not None:
                active.run.cancel()

    def close_session(self, session: Session) -> None:
        """The page is gone: its runs stop, what was written stays."""
        with self._lock:
            for conversation, active in list(self._active.items()):
                if active.session is session:
                    self.stop(conversation)

    def close(self) -> None:
        """Stops everything and waits until the replies are saved."""
        with self._lock:
            threads = [active.thread for active in self._active.values() if active.thread]
            for conversation in list(self._active):
                self.stop(conversation)
        for thread in threads:
            thread.join(timeout=5)

    def delete(self, conversation: int) -> None:
        self.stop(conversation)
        self._store.set_deleted(conversation, True)
        self.announce()

    def restore(self, conversation: int) -> None:
        self._store.set_deleted(conversation, False)
        self.announce()

    def rename(self, conversation: int, title: str) -> None:
        cleaned = " ".join(title.split())[:200]
        if not cleaned:
            raise BadOptionError("a title needs at least one letter")
        self._store.rename(conversation, cleaned)
        self.announce()

    def conversations(self, search: str = "") -> list[dict[str, Any]]:
        return [asdict(conversation) for conversation in self._store.find(search)]

    def announce(self) -> None:
        self._sessions.broadcast({"k": "conversations", "items": self.conversations()})

    @staticmethod
    def _drawn(message: StoredMessage, active: ActiveRun | None) -> dict[str, Any]:
        """A reply being written is further than its stored form; no other one is being written."""
        is_active = active is not None and active.reply.message == message.id
        drawn = asdict(message) | {"streaming": is_active}
        if active is not None and is_active:
            drawn |= {"tokens": list(active.reply.tokens), "details": dict(active.reply.details)}
        return drawn

    def _conversation_of(self, message: int) -> int:
        conversation = self._store.conversation_of(message)
        if conversation is None:
            raise BadOptionError("that message is gone; reload the page")
        return conversation

    def _require_ready(self, conversation: int | None) -> None:
        if self._engine.loaded is None:
            raise RequestError("no model is loaded: choose a target above and press Load")
        if conversation in self._active:
            raise RequestError("a reply is still being written here: stop it first")

    def _prepare(self, conversation: int) -> ReplyStart:
        """The request and the empty reply; part of the change that makes room for it."""
        settings = self._preferences.current.settings
        earlier: tuple[str, ...] = ()
        if settings.earlier_chats == "on":
            earlier = self._store.texts_of_others(conversation, EARLIER_CHARACTERS)
        request = settings.generate_request(self._history(conversation), earlier)
        return ReplyStart(conversation, self._store.start_reply(conversation), request)

    def _start(self, session: Session, start: ReplyStart) -> None:
        loaded = self._engine.loaded
        name = loaded.target.id if loaded else ""
        reply = LiveReply(start.message, start.conversation, self._store, name)
        active = ActiveRun(reply, session)
        self._active[start.conversation] = active
        shown = {"k": "start", "m": start.message, "details": dict(reply.details)}
        self._publish(start.conversation, shown)
        active.thread = threading.Thread(
            target=self._write,
            args=(active, start.request),
            name=f"reply-{start.message}",
            daemon=True,
        )
        active.thread.start()

    def _history(self, conversation: int) -> tuple[Message, ...]:
        """User and assistant in turn: a failed reply leaves two user messages to join.

        A message that was refused as too long stays out, or every later one would be refused too.
        """
        told: list[StoredMessage] = []
        for message in self._store.messages(conversation):
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
                history.append(Message(message.role, message.content))
        return tuple(history)

    def _write(self, active: ActiveRun, request: GenerateRequest) -> None:
        """The reply's thread: follows the run to its end, whatever that is."""
        reply = active.reply
        last: Event | None = None
        try:
            run = self._engine.generate(request)
            with self._lock:
                active.run = run
                if active.cancelled:
                    run.cancel()
            last = self._follow(run, reply)
        except EngineError as error:
            with self._lock:
                last = reply.fail(error)
        finally:
            with self._lock:
                if not reply.finished:
                    last = reply.end("interrupted")
                del self._active[reply.conversation]
                if last:
                    self._publish(reply.conversation, last)

    def _follow(self, run: RunHandle, reply: LiveReply) -> Event:
        """Publishes all but the last event, which may only be seen when the way is free again."""
        while True:
            event = run.next_event(timeout=POLL_SECONDS)
            with self._lock:
                shown = reply.take(event) if event is not None else None
                if reply.finished and shown is not None:
                    return shown
                if shown is not None:
                    self._publish(reply.conversation, shown)
                reply.save_if_due()

    def _publish(self, conversation: int, event: Event) -> None:
        self._sessions.to_conversation(conversation, event)
