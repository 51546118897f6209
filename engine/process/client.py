"""The interface's side of the engine process: start it, talk to it, start it again."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from queue import SimpleQueue

from engine.errors import ERROR_KINDS, EngineDiedError, EngineError
from engine.events import Finished, Queued
from engine.folders import DataFolder
from engine.process.messages import (
    Calibrate,
    Cancel,
    Command,
    Done,
    Failed,
    Generate,
    LayersFound,
    Load,
    LoadedSummary,
    LoadProgress,
    LogLine,
    LogLines,
    Made,
    MakeModel,
    Ready,
    Reply,
    RunUpdate,
    SearchLayers,
    Shutdown,
    Unload,
)
from engine.process.run import Run
from engine.process.spawn import last_words, output_file, start_process
from engine.request import GenerateRequest, LoadRequest
from engine.skip.report import SkipReport, SkipSearchRequest
from engine.stats import Stats

KEPT_LOG_LINES = 2000
START_SECONDS = 120.0
STOP_SECONDS = 5.0
ProgressCallback = Callable[[LoadProgress], None]


@dataclass(slots=True)
class _Waiter:
    """Someone blocked in a command. None ends the progress; the outcome is here by then."""

    identity: int
    progress: SimpleQueue[LoadProgress | None] = field(default_factory=SimpleQueue)
    error: EngineError | None = None
    loaded: LoadedSummary | None = None
    made: Path | None = None
    found: SkipReport | None = None


class EngineClient:
    """Thread-safe. Commands are served in order; a dead engine is replaced at the next command."""

    def __init__(self, data_folder: DataFolder) -> None:
        self._data_folder = data_folder
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._receiver: threading.Thread | None = None
        self._ready: Ready | None = None
        self._ready_event = threading.Event()
        self._waiters: dict[int, _Waiter] = {}
        self._runs: dict[int, Run] = {}
        # A reload's number to that of the run it is for, None for a load.
        self._reloading: dict[int, int | None] = {}
        self._loaded: LoadedSummary | None = None
        self._needs_reload = False
        self._log: deque[LogLine] = deque(maxlen=KEPT_LOG_LINES)
        self._log_count = 0

    # Commands

    def start(self) -> Ready:
        """Starts the engine process if none runs. EngineDiedError when it cannot start."""
        self._await_burial()
        with self._lock:
            if self._connection is None:
                self._spawn()
        if not self._ready_event.wait(START_SECONDS) or self._ready is None:
            raise EngineDiedError(f"the engine did not start; see {output_file(self._data_folder)}")
        return self._ready

    def load(
        self, request: LoadRequest, on_progress: ProgressCallback | None = None
    ) -> LoadedSummary:
        """Blocks until loaded. Raises the EngineError; what was loaded before then stays.

        on_progress is called in the caller's thread.
        """
        return self._bring(lambda identity: Load(identity, request), on_progress)

    def calibrate(
        self, request: LoadRequest, on_progress: ProgressCallback | None = None
    ) -> LoadedSummary:
        """Like load, after measuring for half a minute or more which setup is fastest here."""
        return self._bring(lambda identity: Calibrate(identity, request), on_progress)

    def _bring(
        self, command: Callable[[int], Command], on_progress: ProgressCallback | None
    ) -> LoadedSummary:
        self.start()
        with self._lock:
            self._send_reload()
            waiter = self._submit(command)
        self._wait(waiter, on_progress)
        if waiter.loaded is None:
            raise EngineDiedError("the engine reported no loaded model")
        return waiter.loaded

    def unload(self) -> None:
        self.start()
        with self._lock:
            self._needs_reload = False
            waiter = self._submit(Unload)
        self._wait(waiter)

    def generate(self, request: GenerateRequest) -> Run:
        """Returns at once; other runs come first, their number is told by Queued events."""
        self.start()
        with self._lock:
            reload = self._send_reload()
            identity = next(self._numbers)
            run = Run(identity, lambda: self._cancel(identity, request.sampling.seed or 0))
            self._send(Generate(identity, request))
            if reload is not None:
                self._reloading[reload] = identity
            if self._runs:
                run.push(Queued(len(self._runs)))
            self._runs[identity] = run
            return run

    def make_model(
        self,
        source: str,
        *,
        skip: tuple[int, ...] | None = None,
        file_format: str | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> Path:
        """A copy without layers (skip; () chooses them) or in another weight format."""
        self.start()
        with self._lock:
            waiter = self._submit(lambda identity: MakeModel(identity, source, skip, file_format))
        self._wait(waiter, on_progress)
        if waiter.made is None:
            raise EngineDiedError("the engine reported no file")
        return waiter.made

    def search_layers(
        self, request: SkipSearchRequest, on_progress: ProgressCallback | None = None
    ) -> SkipReport:
        """Layers that a drafter can do without; Ctrl+C ends it with the best so far."""
        self.start()
        with self._lock:
            waiter = self._submit(lambda identity: SearchLayers(identity, request))
        try:
            self._wait(waiter, on_progress)
        except KeyboardInterrupt:
            with self._lock:
                self._send(Cancel(waiter.identity))
            self._wait(waiter, on_progress)
        if waiter.found is None:
            raise EngineDiedError("the engine reported no layers")
        return waiter.found

    def close(self) -> None:
        """Stops runs and the engine process; closing twice is safe."""
        with self._lock:
            process, connection = self._process, self._connection
            if process is None or connection is None:
                return
            with contextlib.suppress(EngineDiedError):  # then it has ended already
                for identity in self._runs:
                    self._send(Cancel(identity))
                self._send(Shutdown())
        process.join(STOP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        self._await_burial()

    # State

    @property
    def loaded(self) -> LoadedSummary | None:
        """What is in memory, or comes back with the next command after the engine died."""
        return self._loaded

    @property
    def pid(self) -> int | None:
        return self._ready.pid if self._ready is not None else None

    def log_lines(self, after: int = 0) -> tuple[LogLine, ...]:
        """Native log lines with a number above `after`, oldest first."""
        with self._lock:
            return tuple(line for line in self._log if line.number > after)

    # The process

    def _spawn(self) -> None:
        process, connection = start_process(self._data_folder)
        self._process, self._connection = process, connection
        self._ready = None
        self._ready_event.clear()
        self._receiver = threading.Thread(
            target=self._receive, args=(process, connection), daemon=True
        )
        self._receiver.start()

    def _await_burial(self) -> None:
        """Where the process has ended but its receiver has not said so yet."""
        with self._lock:
            process, receiver = self._process, self._receiver
        if process is not None and receiver is not None and wait([process.sentinel], 0):
            receiver.join()

    def _send(self, command: Command) -> None:
        if self._connection is None:
            raise EngineDiedError("the engine is not running")
        try:
            self._connection.send(command)
        except OSError as error:
            raise EngineDiedError("the engine stopped; try again") from error

    def _submit(self, make: Callable[[int], Command]) -> _Waiter:
        """Sends a command whose end someone waits for; with the lock held."""
        identity = next(self._numbers)
        self._send(make(identity))
        waiter = self._waiters[identity] = _Waiter(identity)
        return waiter

    def _send_reload(self) -> int | None:
        """Brings back what a dead engine had loaded; the command's number if that was needed."""
        if not self._needs_reload or self._loaded is None:
            return None
        identity = next(self._numbers)
        self._send(Load(identity, self._loaded.request))
        self._reloading[identity] = None
        self._needs_reload = False
        return identity

    def _cancel(self, identity: int, seed: int) -> None:
        """A run that waits behind another ends at once; the engine will skip it."""
        with self._lock:
            run = self._runs.get(identity)
            if run is None or self._connection is None:
                return
            if identity != next(iter(self._runs)):
                del self._runs[identity]
                run.push(Finished("", (), "cancelled", 0, 0, seed, Stats()))
                self._tell_places()
            with contextlib.suppress(EngineDiedError):  # the run itself is told
                self._send(Cancel(identity))

    def _tell_places(self) -> None:
        for place, waiting in enumerate(list(self._runs.values())[1:], start=1):
            waiting.push(Queued(place))

    def _wait(self, waiter: _Waiter, on_progress: ProgressCallback | None = None) -> None:
        while (progress := waiter.progress.get()) is not None:
            if on_progress is not None:
                on_progress(progress)
        if waiter.error is not None:
            raise waiter.error

    # Replies

    def _receive(self, process: SpawnProcess, connection: Connection) -> None:
        while True:
            try:
                reply: Reply = connection.recv()
            except (EOFError, OSError):
                break
            self._dispatch(reply)
        process.join()
        self._bury(process, connection)

    def _dispatch(self, reply: Reply) -> None:
        with self._lock:
            if isinstance(reply, Ready):
                self._ready = reply
                self._ready_event.set()
            elif isinstance(reply, LogLines):
                self._keep_log(reply)
            elif isinstance(reply, RunUpdate):
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
                self._loaded = reply.loaded
                self._finish(reply)

    def _deliver(self, reply: Made | LayersFound) -> None:
        waiter = self._waiters.pop(reply.id, None)
        if waiter is None:
            return
        if isinstance(reply, Made):
            waiter.made = Path(reply.path)
        else:
            waiter.found = reply.report
        waiter.progress.put(None)

    def _finish(self, reply: Done | Failed) -> None:
        error = None
        if isinstance(reply, Failed):
            error = ERROR_KINDS.get(reply.kind, EngineError)(reply.message)
        waiter = self._waiters.pop(reply.id, None)
        if waiter is not None:
            waiter.error, waiter.loaded = error, reply.loaded
            waiter.progress.put(None)
        ended: int | None = reply.id
        if reply.id in self._reloading:
            reloaded_for = self._reloading.pop(reply.id)
            ended = reloaded_for if error is not None else None
        run = self._runs.pop(ended, None) if ended is not None else None
        if run is not None:
            if error is not None:
                run.push(error)
            self._tell_places()

    def _keep_log(self, reply: LogLines) -> None:
        """Numbers go on across engine restarts."""
        for line in reply.lines:
            self._log_count += 1
            self._log.append(LogLine(self._log_count, line.level, line.text))

    def _bury(self, process: SpawnProcess, connection: Connection) -> None:
        """The process is gone: everyone who waits is told, the next command starts another."""
        connection.close()
        with self._lock:
            if self._connection is not connection:
                return
            self._connection = self._process = self._ready = None
            if self._reloading:  # it died of what it was to bring back, and would again
                self._loaded = None
            self._reloading.clear()
            reason = last_words(process.exitcode, self._data_folder)
            died = f"the engine stopped unexpectedly: {reason}"
            self._needs_reload = self._loaded is not None
            back = "what was loaded before comes back when needed"
            again = "send the next message"
            if self._loaded is None:
                back = again = "choose a model and load it"
            waiters, self._waiters = list(self._waiters.values()), {}
            runs, self._runs = list(self._runs.values()), {}
            self._ready_event.set()
        for waiter in waiters:
            waiter.error = EngineDiedError(f"{died}; {back}")
            waiter.progress.put(None)
        for run in runs:
            run.push(EngineDiedError(f"{died}; the reply so far is kept, {again}"))
