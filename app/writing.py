"""Replies being written: each follows its run of the engine in a thread of its own."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from app.beginning import Beginning
from app.conversations import Conversations
from app.replies import LiveReply, verified_by
from app.session import Event, Session
from app.stored_message import StoredMessage
from app.token_ids import TokenIds
from engine.data.errors import EngineError
from engine.data.events import Finished
from engine.data.request import GenerateRequest
from engine.process.protocols import Generator, RunHandle

log = logging.getLogger(__name__)
POLL_SECONDS = 0.25
SAVE_AGAIN_SECONDS = 2.0
_CLOSE_SECONDS = 8.0
"""For all of them: longer than an engine that does not answer is given."""


@dataclass(frozen=True, slots=True)
class ReplyStart:
    """A reply that is stored, and what it is to answer. begun: what it begins with, None for
    nothing. told: what pages are told of it: it starts, it is resumed, or the path is another."""

    conversation: int
    message: int
    request: GenerateRequest
    begun: Beginning | None = None
    told: Literal["start", "resume", "changed"] = "start"


class _Writing:
    """One of them, its run once the engine has taken it, and the page that asked."""

    def __init__(self, reply: LiveReply, session: Session) -> None:
        self.reply = reply
        self.session = session
        self.run: RunHandle | None = None
        self.cancelled = False
        self.answers_now = False
        self.thread: threading.Thread | None = None

    def cancel(self) -> None:
        self.cancelled = True
        if self.run is not None:
            self.run.cancel()

    def answer_now(self) -> None:
        self.answers_now = True
        self.reply.answer_now()
        if self.run is not None:
            self.run.answer_now()


class Writer:
    """At most one reply in each conversation. lock: held around every call, and around publish.

    A reply that could not be stored stays here, and is stored as soon as that works.
    """

    def __init__(
        self,
        engine: Generator,
        store: Conversations,
        publish: Callable[[int, Event], None],
        lock: threading.RLock,
    ) -> None:
        self._engine = engine
        self._store = store
        self._publish = publish
        self._lock = lock
        self._active: dict[int, _Writing] = {}
        self._unsaved: dict[int, LiveReply] = {}
        self._closing = threading.Event()

    @property
    def is_writing(self) -> bool:
        """Whether any reply is being written or queued."""
        return bool(self._active)

    def reply(self, conversation: int | None) -> LiveReply | None:
        """The one that is being written there."""
        writing = None if conversation is None else self._active.get(conversation)
        return None if writing is None else writing.reply

    def in_memory(self, message: int) -> LiveReply | None:
        """A reply of which the stored form is not the latest."""
        active = (writing.reply for writing in self._active.values())
        live = next((reply for reply in active if reply.message == message), None)
        return live or self._unsaved.get(message)

    def latest(self, message: StoredMessage) -> StoredMessage:
        """As it is in memory, where that is further than what is stored."""
        live = self.in_memory(message.id)
        if live is None:
            return message
        return replace(
            message,
            tokens=list(live.tokens),
            details=dict(live.details),
            has_ids=live.ids.are_known,
        )

    def save_again(self, conversation: int | None = None) -> str:
        """Stores what could not be, in one conversation or in all; why not, "" if it is stored."""
        reasons = ""
        for reply in list(self._unsaved.values()):
            if conversation is not None and reply.conversation != conversation:
                continue
            if reply.save():
                del self._unsaved[reply.message]
                saved = {"k": "saved", "m": reply.message, "details": dict(reply.details)}
                self._publish(reply.conversation, saved)
            else:
                reasons = str(reply.details["unsaved"])
        return reasons

    def start(self, session: Session, start: ReplyStart) -> None:
        loaded = self._engine.loaded
        name = loaded.target.id if loaded else ""
        begun = start.begun or Beginning(TokenIds.of_new(start.request))
        reply = LiveReply(start.message, start.conversation, self._store, name, begun)
        reply.details["verified"] = verified_by(start.request)
        writing = self._active[start.conversation] = _Writing(reply, session)
        if reply.tokens:
            reply.save()
        shown = {"m": start.message, "details": copy.deepcopy(reply.details)}
        self._publish(
            start.conversation, {"k": start.told} | ({} if start.told == "changed" else shown)
        )
        writing.thread = threading.Thread(
            target=self._write,
            args=(writing, start.request),
            name=f"reply-{start.message}",
            daemon=True,
        )
        writing.thread.start()

    def stop(self, conversation: int) -> None:
        writing = self._active.get(conversation)
        if writing is not None:
            writing.cancel()

    def answer_now(self, conversation: int) -> None:
        writing = self._active.get(conversation)
        if writing is not None:
            writing.answer_now()

    def leave(self, session: Session, heir: Callable[[int], Session | None]) -> None:
        """The page is gone: its replies go on for the page that takes them over, or they stop."""
        for writing in self._active.values():
            if writing.session is session:
                other = heir(writing.reply.conversation)
                if other is None:
                    writing.cancel()
                else:
                    writing.session = other

    def close(self) -> None:
        """Stops everything and waits until the replies are saved; called without the lock."""
        with self._lock:
            threads = [writing.thread for writing in self._active.values() if writing.thread]
            for writing in self._active.values():
                writing.cancel()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            lost = self.save_again()
        self._closing.set()
        if lost:
            log.error("replies could not be saved (%s)", lost)

    def _keep(self, reply: LiveReply) -> None:
        """It could not be stored: tries again until it is, or until the page ends."""
        self._unsaved[reply.message] = reply
        if len(self._unsaved) == 1:
            threading.Thread(target=self._save_later, name="save-again", daemon=True).start()

    def _save_later(self) -> None:
        while not self._closing.wait(SAVE_AGAIN_SECONDS):
            with self._lock:
                self.save_again()
                if not self._unsaved:
                    return

    def _write(self, writing: _Writing, request: GenerateRequest) -> None:
        """The reply's thread: follows the run to its end, whatever that is."""
        reply = writing.reply
        try:
            run = self._engine.generate(request)
            with self._lock:
                writing.run = run
                if writing.answers_now:
                    run.answer_now()
                if writing.cancelled:
                    run.cancel()
            self._follow(run, reply)
        except EngineError as error:
            self._end(reply, partial(reply.fail, error))
        finally:
            if not reply.finished:
                self._end(reply, partial(reply.end, "interrupted"))

    def _follow(self, run: RunHandle, reply: LiveReply) -> None:
        while True:
            event = run.next_event(timeout=POLL_SECONDS)
            if isinstance(event, Finished):
                self._end(reply, partial(reply.finish, event))
                return
            with self._lock:
                told = None if event is None else reply.take(event)
                if told is not None:
                    self._publish(reply.conversation, told)
                reply.save_if_due()

    def _end(self, reply: LiveReply, end: Callable[[], Event]) -> None:
        """At once for whoever looks: a reply that is complete is never in the way of the next."""
        with self._lock:
            try:
                last = end()
            finally:
                del self._active[reply.conversation]
                if "unsaved" in reply.details:
                    self._keep(reply)
            self._publish(reply.conversation, last)
