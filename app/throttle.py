"""Limits how often something happens, without ever leaving out the last time."""

from __future__ import annotations

import threading
from collections.abc import Callable

INTERVAL = 0.25


class Throttle:
    """`request` may be called from any thread, as often as it likes; `action` follows soon."""

    def __init__(self, action: Callable[[], None], interval: float = INTERVAL) -> None:
        self._action = action
        self._interval = interval
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def request(self) -> None:
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(self._interval, self._run)
                self._timer.daemon = True
                self._timer.start()

    def _run(self) -> None:
        with self._lock:
            self._timer = None
        self._action()
