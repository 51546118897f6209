"""Who waits for what of the engine: commands, runs in their order, and reloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from engine.data.errors import ERROR_KINDS, EngineError
from engine.data.events import Finished, Queued
from engine.data.loaded import LoadedSummary
from engine.data.stats import Stats
from engine.process.messages import Done, Failed, LayersFound, LoadProgress, Made, RunUpdate
from engine.process.run import Run
from engine.skip.report import SkipReport

ProgressCallback = Callable[[LoadProgress], None]


@dataclass(slots=True)
class Waiter:
    """Someone blocked in a command. None ends the progress; the outcome is here by then."""

    identity: int
    progress: SimpleQueue[LoadProgress | None] = field(default_factory=SimpleQueue)
    error: EngineError | None = None
    loaded: LoadedSummary | None = None
    made: Path | None = None
    found: SkipReport | None = None

    def wait(self, on_progress: ProgressCallback | None = None) -> None:
        """Blocks to the command's end; raises the EngineError that ended it."""
        while (progress := self.progress.get()) is not None:
            if on_progress is not None:
                on_progress(progress)
        if self.error is not None:
            raise self.error

    def end(self, error: EngineError | None = None) -> None:
        self.error = error
        self.progress.put(None)


class Waiting:
    """Not thread-safe: the client holds its lock around every call."""

    def __init__(self) -> None:
        self._waiters: dict[int, Waiter] = {}
        self._runs: dict[int, Run] = {}
        # A reload's number to that of the run it is for, None for a load.
        self._reloading: dict[int, int | None] = {}

    @property
    def is_reloading(self) -> bool:
        return bool(self._reloading)

    @property
    def runs(self) -> tuple[int, ...]:
        """The one being written, then those behind it."""
        return tuple(self._runs)

    def add_waiter(self, identity: int) -> Waiter:
        waiter = self._waiters[identity] = Waiter(identity)
        return waiter

    def add_run(self, run: Run) -> None:
        if self._runs:
            run.push(Queued(len(self._runs)))
        self._runs[run.id] = run

    def add_reload(self, identity: int, run: int | None = None) -> None:
        self._reloading[identity] = run

    def cancel(self, identity: int, seed: int) -> bool:
        """False if it has ended. A run that waits behind another ends here, at once."""
        run = self._runs.get(identity)
        if run is None:
            return False
        if identity != next(iter(self._runs)):
            del self._runs[identity]
            run.push(Finished("", (), "cancelled", 0, 0, seed, Stats()))
            self._tell_places()
        return True

    def take(self, reply: RunUpdate | LoadProgress | Made | LayersFound | Done | Failed) -> None:
        """Gives a reply to whoever waits for it."""
        if isinstance(reply, RunUpdate):
            run = self._runs.get(reply.id)
            if run is not None:
                run.push(reply.event)
        elif isinstance(reply, LoadProgress):
            waiter = self._waiters.get(reply.id)
            if waiter is not None:
                waiter.progress.put(reply)
        elif isinstance(reply, Made | LayersFound):
            self._deliver(reply)
        else:
            self._finish(reply)

    def give_up(self) -> tuple[list[Waiter], list[Run]]:
        """Everyone who still waits; nobody does afterwards."""
        waiters, runs = list(self._waiters.values()), list(self._runs.values())
        for table in (self._waiters, self._runs, self._reloading):
            table.clear()
        return waiters, runs

    def _deliver(self, reply: Made | LayersFound) -> None:
        waiter = self._waiters.pop(reply.id, None)
        if waiter is None:
            return
        if isinstance(reply, Made):
            waiter.made = Path(reply.path)
        else:
            waiter.found = reply.report
        waiter.end()

    def _finish(self, reply: Done | Failed) -> None:
        error = None
        if isinstance(reply, Failed):
            error = ERROR_KINDS.get(reply.kind, EngineError)(reply.message)
        waiter = self._waiters.pop(reply.id, None)
        if waiter is not None:
            waiter.loaded = reply.loaded
            waiter.end(error)
        ended: int | None = reply.id
        if reply.id in self._reloading:
            reloaded_for = self._reloading.pop(reply.id)
            ended = reloaded_for if error is not None else None
        run = self._runs.pop(ended, None) if ended is not None else None
        if run is not None:
            if error is not None:
                run.push(error)
            self._tell_places()

    def _tell_places(self) -> None:
        for place, waiting in enumerate(list(self._runs.values())[1:], start=1):
            waiting.push(Queued(place))
