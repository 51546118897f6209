"""Pages that went away: a reload comes back within a moment, and stops nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.session import Session

GRACE_SECONDS = 70.0
"""A minute, and some more: a hidden page may ask as rarely as once a minute."""


class Departures:
    """gone: called, in a thread of its own, with a page that has been silent for the grace."""

    def __init__(self, gone: Callable[[Session], None], grace: float = GRACE_SECONDS) -> None:
        self._gone = gone
        self._grace = grace
        self._lock = threading.Lock()
        self._waiting: dict[str, threading.Timer] = {}

    def leaves(self, session: Session) -> None:
        """Its connection ended: for good, or because it is loaded again or was cut off."""
        self._wait(session, session.seen)

    def close(self) -> None:
        with self._lock:
            for timer in self._waiting.values():
                timer.cancel()
            self._waiting.clear()

    def _wait(self, session: Session, seen: float) -> None:
        timer = threading.Timer(self._grace, self._look, (session, seen))
        timer.daemon = True
        with self._lock:
            before = self._waiting.pop(session.id, None)
            if before is not None:
                before.cancel()
            self._waiting[session.id] = timer
            timer.start()

    def _look(self, session: Session, seen: float) -> None:
        if session.seen > seen:  # it asked since: only its connection was cut
            self._wait(session, session.seen)
            return
        with self._lock:
            if self._waiting.pop(session.id, None) is None:
                return  # closed meanwhile
        self._gone(session)
