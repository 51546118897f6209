"""When an engine process is to be ended: it does not start, says nothing, or does not stop."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from engine.children.pulse import Pulse

TICK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which an engine process is ended.

    stop: from Stop to its answer. A pass on the processor ends between two operations and takes
    well under a second to do so, a round hardly longer; what cannot be interrupted (a prompt read
    by a graphics card, a copy being written) must not keep the user waiting either.
    idle: without a sign of life and without work; the sign comes every second.
    deaf: without a sign of life though it works: one operation that holds everything up may take
    its time, for instance while memory comes back from a slow disk.
    start: as idle, before it has said its first word. patient_start: the same for the engine that
    replaces one which was too slow, in case the machine is. ready: until llama.cpp is loaded, from
    a slow disk with large files for a graphics card.
    """

    stop: float = 5.0
    idle: float = 6.0
    deaf: float = 60.0
    start: float = 6.0
    patient_start: float = 60.0
    ready: float = 120.0


class Overseer:
    """Thread-safe, but `verdict` belongs to the one thread that asks again and again."""

    def __init__(self, pulse: Pulse, limits: Limits, start_seconds: float) -> None:
        self._pulse = pulse
        self._limits = limits
        self._start_seconds = start_seconds
        self._lock = threading.Lock()
        self.has_spoken = False
        self._starting: float | None = 0.0
        self._stopping: dict[int, float] = {}

    def heard(self) -> None:
        self.has_spoken = True
        self._pulse.heard()

    def is_ready(self) -> None:
        with self._lock:
            self._starting = None

    def expect_end(self, identity: int) -> None:
        """The command was told to stop; asking again does not give it more time."""
        with self._lock:
            self._stopping.setdefault(identity, 0.0)

    def answered(self, identity: int) -> None:
        with self._lock:
            self._stopping.pop(identity, None)

    def verdict(self) -> str:
        """Why the process is to be ended, "" if it is not."""
        passed = self._pulse.tick()
        with self._lock:
            for identity in self._stopping:
                self._stopping[identity] += passed
            waited = max(self._stopping.values(), default=0.0)
            if self._starting is not None:
                self._starting += passed
            started = self._starting or 0.0
        if waited >= self._limits.stop:
            return f"it did not stop within {self._limits.stop:.0f} seconds and was ended"
        if self._pulse.silent >= self._limits.deaf:
            return f"it did not answer for {self._limits.deaf:.0f} seconds and was ended"
        if started >= self._limits.ready:
            return f"it was not ready within {self._limits.ready:.0f} seconds and was ended"
        if not self.has_spoken:
            hangs = self._pulse.idle >= self._start_seconds
            return f"it did not start for {self._start_seconds:.0f} seconds" if hangs else ""
        if self._pulse.idle >= self._limits.idle:
            return f"it did not answer for {self._limits.idle:.0f} seconds and was ended"
        return ""
