"""The last scan, for questions that come one after the other."""

from __future__ import annotations

import threading
import time

from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.scan import FoundModel, scan

FRESH_SECONDS = 20.0
"""A download of another program's shows up so much later at most; opening one menu asks many times
within a second, and a walk through a thousand files takes tens of milliseconds."""


class Elsewhere:
    """Thread-safe. machine: None finds nothing."""

    def __init__(self, machine: Machine | None) -> None:
        self._machine = machine
        self._lock = threading.Lock()
        self._found: tuple[FoundModel, ...] = ()
        self._scanned_at: float | None = None

    def models(self) -> tuple[FoundModel, ...]:
        if self._machine is None:
            return ()
        with self._lock:
            now = time.monotonic()
            if self._scanned_at is None or now - self._scanned_at > FRESH_SECONDS:
                self._found = scan(self._machine)
                self._scanned_at = time.monotonic()
            return self._found
