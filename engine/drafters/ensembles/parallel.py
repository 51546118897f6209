"""Members of an ensemble that draft side by side, each with its share of the threads.

A pass over one token mostly waits for memory, and more threads wait for each other as well, so
several passes at once can be faster than one after the other. Whether they are is measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol, runtime_checkable

from engine.drafters.base import StepDrafter

Peek = Callable[[], float | None]

_ROUNDS = 4
_LEAST_GAIN = 0.05
"""Fraction of the time that must be saved: less is within what measurements differ by."""


@runtime_checkable
class Threaded(StepDrafter, Protocol):
    """Its peek is a pass of native code, which other threads need not wait for."""

    def use_threads(self, threads: int) -> None:
        """Of its passes from now on."""
        ...

    def rehearse(self) -> None:
        """One draft step, to be timed. Keeps the text it has taken in."""
        ...


class ParallelMembers:
    """threads: of the processor, for all members together. Until `measure`, one after the other.

    in_turn, together: measured seconds of one step of all members, None where there is no choice.
    """

    def __init__(self, members: Sequence[StepDrafter], threads: int) -> None:
        able = [member for member in members if isinstance(member, Threaded)]
        self._members = {member.name: member for member in able} if threads > 1 else {}
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self.side_by_side = False
        self.in_turn: float | None = None
        self.together: float | None = None

    @property
    def description(self) -> str:
        """What was found, "" where there was no choice."""
        if self.in_turn is None or self.together is None:
            return ""
        figures = f"{1e3 * self.together:.1f} ms a token side by side, {1e3 * self.in_turn:.1f} not"
        return f"members {'side by side' if self.side_by_side else 'in turn'} ({figures})"

    def measure(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Decides by a few steps each way, in turns, so that a busy machine slows both alike."""
        members = list(self._members.values())
        if len(members) < 2:
            return
        in_turn: list[float] = []
        together: list[float] = []
        for round_ in range(_ROUNDS + 1):
            for self.side_by_side, times in ((False, in_turn), (True, together)):
                started = clock()
                for ended in self._begun(members, [member.rehearse for member in members]):
                    ended()
                seconds = clock() - started
                if round_:  # the first one sets things up
                    times.append(seconds)
        self.in_turn, self.together = statistics.median(in_turn), statistics.median(together)
        self.side_by_side = self.together < (1.0 - _LEAST_GAIN) * self.in_turn

    def use_all_threads(self) -> None:
        """For passes of one member at a time."""
        for member in self._members.values():
            member.use_threads(self._threads)

    def peeks(self, members: Sequence[StepDrafter]) -> list[Peek]:
        """A call for each that tells its peek's result: side by side all have ended by now."""
        return self._begun(members, [member.peek for member in members])

    def _begun(self, members: Sequence[StepDrafter], calls: Sequence[Peek]) -> list[Peek]:
        able = [self._members[one.name] for one in members if one.name in self._members]
        if not self.side_by_side or len(able) < 2:
            self.use_all_threads()
            return list(calls)
        for index, member in enumerate(able):
            member.use_threads(self._threads_of(index, len(able)))
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(self._threads, len(self._members)), "drafting")
        ended: list[Peek] = []
        running: list[Future[float | None]] = []
        for one, call in zip(members, calls, strict=True):
            if one.name in self._members:
                running.append(self._pool.submit(call))
                ended.append(running[-1].result)
            else:
                ended.append(call)
        wait(running)  # whatever comes of the first one: no pass may run on unseen
        return ended

    def _threads_of(self, index: int, count: int) -> int:
        """At least one thread; the first members get what does not divide evenly."""
        return max(1, self._threads // count + (index < self._threads % count))

    def close(self) -> None:
        """Waits for what still runs. Closing twice is safe."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
