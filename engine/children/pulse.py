"""Whether a process that says nothing still does something.

Silence alone proves nothing: a process may be computing, or waiting for a slow disk. One that says
nothing and uses no processor either is stopped or hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import psutil

LONGEST_TICK = 1.0
_BUSY = (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP, psutil.STATUS_WAKING)


class Work(Protocol):
    def __call__(self) -> bool:
        """Whether the process has worked since it was asked last."""
        ...


class ProcessWork:
    """What the operating system says of a process. One that is gone does not work."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used = 0.0

    def __call__(self) -> bool:
        try:
            process = psutil.Process(self._pid)
            status, times = process.status(), process.cpu_times()
        except psutil.Error:
            return False
        used = times.user + times.system
        grew = used > self._used
        self._used = used
        return status in _BUSY or (grew and status != psutil.STATUS_STOPPED)


class TreeWork:
    """A process and all that it has started: it may itself only wait for them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: dict[int, ProcessWork] = {}

    def __call__(self) -> bool:
        try:
            root = psutil.Process(self._pid)
            if root.status() == psutil.STATUS_STOPPED:
                return False
            tree = [self._pid, *(one.pid for one in root.children(recursive=True))]
        except psutil.Error:
            return False
        self._known = {pid: self._known.get(pid, ProcessWork(pid)) for pid in tree}
        return any([work() for work in self._known.values()])


class Pulse:
    """Counts silence. `tick` is called a few times a second, by one thread.

    A tick counts for a second at most: time in which this program slept itself, as in a suspended
    computer or terminal, is nobody's silence. Not thread-safe but for `heard`.
    """

    def __init__(self, work: Work, clock: Callable[[], float] = time.monotonic) -> None:
        self._work = work
        self._clock = clock
        self._last = clock()
        self._heard = False
        self.silent = 0.0
        self.idle = 0.0
        """Seconds without a word, and without a word or work."""

    def heard(self) -> None:
        """It said something."""
        self._heard = True

    def tick(self) -> float:
        """Returns the seconds that count since the last one."""
        now = self._clock()
        passed = min(now - self._last, LONGEST_TICK)
        self._last = now
        worked = self._work()
        if self._heard:
            self._heard = False
            self.silent = self.idle = 0.0
            return passed
        self.silent += passed
        self.idle = 0.0 if worked else self.idle + passed
        return passed
