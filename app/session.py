"""One open page: a numbered event log that the page follows and can ask again from any number."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any

from engine.data.documents import compact_json

Event = dict[str, Any]

LOG_LENGTH = 5_000
PUSH_INTERVAL = 1 / 25
IDLE_SECONDS = 15.0
FORGET_SECONDS = 600.0
"""Pages ask every few seconds; browsers slow a hidden page's clock down to once a minute."""


class Session:
    """Events may be added from any thread; one asyncio reader streams them to the page.

    conversation: the one it shows. before: the id of the session that the same tab had before it
    was loaded again. seen: when the page last asked for anything.
    """

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(18)
        self.conversation: int | None = None
        self.before: str | None = None
        self._order = 0
        self.attached = False
        self.seen = time.monotonic()
        self._events: deque[Event] = deque()
        self._first = 0
        self._lock = threading.Lock()
        self._wake: Callable[[], None] | None = None

    def touch(self) -> None:
        """The page asks: it is there."""
        self.seen = time.monotonic()

    def show(self, conversation: int | None, order: int | None) -> None:
        """The page shows this conversation, unless a request of a later order has come before."""
        with self._lock:
            if order is None or order >= self._order:
                self._order = order or self._order
                self.conversation = conversation

    def add(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
            if len(self._events) > LOG_LENGTH:
                self._events.popleft()
                self._first += 1
            if self._wake:
                self._wake()

    @property
    def head(self) -> int:
        """The number that the next event gets."""
        with self._lock:
            return self._first + len(self._events)

    def since(self, number: int) -> dict[str, Any]:
        """Events from `number` on. `lost` tells that older ones are gone: reload the state."""
        with self._lock:
            start = max(0, number - self._first)
            return {
                "session": self.id,
                "seq": self._first + start,
                "events": list(self._events)[start:],
                "lost": number < self._first,
                "attached": self.attached,
            }

    async def envelopes(self, after: int) -> AsyncGenerator[str, None]:
        """JSON envelopes of new events, at most twenty-five a second.

        Ends when nothing has happened for a while, or the page goes away: gradio animates a
        component as long as a stream into it is open. The page opens the next one.
        """
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        with self._lock:
            self._wake = wake
            self.attached = True
        try:
            while True:
                changed.clear()
                batch = self.since(after)
                if batch["events"]:
                    after = batch["seq"] + len(batch["events"])
                    yield _json(batch)
                    await asyncio.sleep(PUSH_INTERVAL)
                elif not await _happens(changed, IDLE_SECONDS):
                    return
        finally:
            with self._lock:
                if self._wake is wake:
                    self._wake = None
                    self.attached = False


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


def _json(batch: Event) -> str:
    """Without any "<": gradio warns of what looks like a script in a component's value."""
    return compact_json(batch).replace("<", "\\u003c")


class Sessions:
    """Every open page."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def create(self, before: str | None = None) -> Session:
        """A new one; those of pages that went away without a word are forgotten.

        before: the session that the same tab had.
        """
        session = Session()
        session.before = before
        with self._lock:
            self._sessions[session.id] = session
            for other in list(self._sessions.values()):
                if not other.attached and session.seen - other.seen > FORGET_SECONDS:
                    del self._sessions[other.id]
        return session

    def get(self, session_id: str) -> Session | None:
        with self._lock:
            return self._sessions.get(session_id)

    def close(self, session_id: str) -> Session | None:
        with self._lock:
            return self._sessions.pop(session_id, None)

    def heir(self, session: Session, conversation: int) -> Session | None:
        """Another page that goes on with this conversation: the same tab, or one that shows it."""
        others = [other for other in self._all() if other is not session]
        same_tab = (other for other in others if other.before == session.id)
        showing = (other for other in others if other.conversation == conversation)
        return next(same_tab, None) or next(showing, None)

    def broadcast(self, event: Event) -> None:
        for session in self._all():
            session.add(event)

    def to_conversation(self, conversation: int, event: Event) -> None:
        """To each page that shows this conversation, which the event names as "c"."""
        for session in self._all():
            if session.conversation == conversation:
                session.add(event | {"c": conversation})

    def _all(self) -> list[Session]:
        with self._lock:
            return list(self._sessions.values())
