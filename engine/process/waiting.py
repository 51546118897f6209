"""Who waits for what of the engine: its commands in their order, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from engine.data.errors import ERROR_KINDS, EngineError, StoppedError
from engine.data.events import Queued
from engine.data.loaded import LoadedSummary
from engine.process.messages import (
    Begun,
    Command,
    Done,
    Failed,
    LayersFound,
    LoadProgress,
    Made,
    RunUpdate,
)
from engine.process.run import Run
from engine.skip.report import SkipReport

ProgressCallback = Callable[[LoadProgress], None]
Cancelled = Literal["unknown", "ended", "running"]


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


@dataclass(slots=True)
class Pending:
    """A command that has not ended. Without run and waiter it is a reload, made for `reload_for`
    (a run's number) or for no run in particular.

    begun: the engine works on it. sent: how often. cancelled: nobody wants its result any more.
    told_to_answer: its reply is to end its thought.
    """

    identity: int
    command: Command
    run: Run | None = None
    waiter: Waiter | None = None
    reload_for: int | None = None
    begun: bool = False
    cancelled: bool = False
    sent: int = 1
    told_to_answer: bool = False

    @property
    def is_reload(self) -> bool:
        return self.run is None and self.waiter is None

    def end(self, error: EngineError) -> None:
        """The engine will not end it any more; a run that was stopped is complete as it is."""
        if self.run is not None:
            if self.cancelled:
                self.run.push_cancelled()
            else:
                self.run.push(error)
        if self.waiter is not None:
            self.waiter.end(StoppedError("it was stopped") if self.cancelled else error)


class Waiting:
    """Not thread-safe: the client holds its lock around every call."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}

    def add(self, pending: Pending) -> None:
        self._pending[pending.identity] = pending
        before = sum(1 for _ in self._runs) - 1
        if pending.run is not None and before:
            pending.run.push(Queued(before))

    def all(self) -> tuple[Pending, ...]:
        """In their order, the one being served first."""
        return tuple(self._pending.values())

    def reloads(self) -> bool:
        """Whether what was loaded is being brought back: nothing behind that has begun."""
        return any(one.is_reload for one in self._pending.values())

    def begin(self, reply: Begun) -> bool:
        """Whether it has been cancelled: then it is to end at once."""
        pending = self._pending.get(reply.id)
        if pending is not None:
            pending.begun = True
        return pending is None or pending.cancelled

    def cancel(self, identity: int) -> Cancelled:
        """What the engine has not begun ends here, at once."""
        pending = self._pending.get(identity)
        if pending is None:
            return "unknown"
        pending.cancelled = True
        if pending.begun:
            return "running"
        del self._pending[identity]
        pending.end(StoppedError("it was stopped"))
        self._tell_places()
        return "ended"

    def take(self, reply: RunUpdate | LoadProgress | Made | LayersFound | Done | Failed) -> None:
        """Gives a reply to whoever waits for it."""
        pending = self._pending.get(reply.id)
        if pending is None:
            return
        if isinstance(reply, RunUpdate):
            if pending.run is not None:
                pending.run.push(reply.event)
        elif isinstance(reply, LoadProgress):
            if pending.waiter is not None:
                pending.waiter.progress.put(reply)
        elif isinstance(reply, Made | LayersFound):
            self._deliver(pending, reply)
        else:
            self._finish(pending, reply)

    def failed_reload(self, reply: Done | Failed) -> EngineError | None:
        """Why what was loaded before does not come back, if the reply says so; before `take`."""
        pending = self._pending.get(reply.id)
        return _error_of(reply) if pending is not None and pending.is_reload else None

    def give_up(self) -> tuple[Pending, ...]:
        """Everything that has not ended, in its order; nothing is left afterwards."""
        pending = self.all()
        self._pending.clear()
        return pending

    @property
    def _runs(self) -> Iterator[Run]:
        """The one being written, then those behind it."""
        return (one.run for one in self._pending.values() if one.run is not None)

    def _deliver(self, pending: Pending, reply: Made | LayersFound) -> None:
        del self._pending[pending.identity]
        waiter = pending.waiter
        if waiter is None:
            return
        if isinstance(reply, Made):
            waiter.made = Path(reply.path)
        else:
            waiter.found = reply.report
        waiter.end()

    def _finish(self, pending: Pending, reply: Done | Failed) -> None:
        del self._pending[pending.identity]
        error = _error_of(reply)
        if pending.waiter is not None:
            pending.waiter.loaded = reply.loaded
            pending.waiter.end(error)
        ended = pending
        if pending.is_reload and error is not None and pending.reload_for is not None:
            ended = self._pending.pop(pending.reload_for, pending)
        if ended.run is not None:
            if isinstance(error, StoppedError):
                ended.run.push_cancelled()
            elif error is not None:
                ended.run.push(error)
            self._tell_places()

    def _tell_places(self) -> None:
        for place, waiting in enumerate(list(self._runs)[1:], start=1):
            waiting.push(Queued(place))


def _error_of(reply: Done | Failed) -> EngineError | None:
    if isinstance(reply, Done):
        return None
    return ERROR_KINDS.get(reply.kind, EngineError)(reply.message)
