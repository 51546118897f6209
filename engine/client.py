"""The interface's side of the engine process: start it, talk to it, start it again."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from engine.errors import ERROR_KINDS, EngineDiedError, EngineError
from engine.events import Queued
from engine.folders import DataFolder
from engine.messages import (
    Cancel,
    Command,
    Done,
    Failed,
    Generate,
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
    Shutdown,
    Unload,
)
from engine.request import GenerateRequest, LoadRequest
from engine.run import Run

KEPT_LOG_LINES = 2000
START_SECONDS = 120.0
STOP_SECONDS = 5.0
ProgressCallback = Callable[[LoadProgress], None]


@dataclass(slots=True)
class _Waiter:
    """Someone blocked in load or unload."""

    on_progress: ProgressCallback | None
    finished: threading.Event = field(default_factory=threading.Event)
    error: EngineError | None = None
    made: Path | None = None


class EngineClient:
    """Thread-safe. Commands are served in order; a dead engine is replaced at the next command."""

    def __init__(self, data_folder: DataFolder) -> None:
        self._data_folder = data_folder
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._ready: Ready | None = None
        self._ready_event = threading.Event()
        self._waiters: dict[int, _Waiter] = {}
        self._runs: dict[int, Run] = {}
        self._loaded: LoadedSummary | None = None
        self._needs_reload = False
        self._log: deque[LogLine] = deque(maxlen=KEPT_LOG_LINES)
        self._log_count = 0

    # Commands

    def start(self) -> Ready:
        """Starts the engine process if none runs. EngineDiedError when it cannot start."""
        with self._lock:
            if self._connection is None:
                self._spawn()
        if not self._ready_event.wait(START_SECONDS) or self._ready is None:
            raise EngineDiedError(f"the engine did not start; see {self._output_file}")
        return self._ready

    def load(
        self, request: LoadRequest, on_progress: ProgressCallback | None = None
    ) -> LoadedSummary:
        """Blocks until loaded. Raises the EngineError; what was loaded before then stays."""
        self.start()
        with self._lock:
            if self._needs_reload and self._loaded is not None:
                self._send(Load(next(self._numbers), self._loaded.request))
                self._needs_reload = False
            identity = next(self._numbers)
            waiter = self._waiters[identity] = _Waiter(on_progress)
            self._send(Load(identity, request))
        self._wait(waiter)
        if self._loaded is None:
            raise EngineDiedError("the engine reported no loaded model")
        return self._loaded

    def unload(self) -> None:
        self.start()
        with self._lock:
            identity = next(self._numbers)
            waiter = self._waiters[identity] = _Waiter(None)
            self._needs_reload = False
            self._send(Unload(identity))
        self._wait(waiter)

    def generate(self, request: GenerateRequest) -> Run:
        """Returns at once; other runs come first, their number is told by Queued events."""
        self.start()
        with self._lock:
            if self._needs_reload and self._loaded is not None:
                self._send(Load(next(self._numbers), self._loaded.request))
                self._needs_reload = False
            identity = next(self._numbers)
            run = Run(identity, lambda: self._cancel(identity))
            if self._runs:
                run.push(Queued(len(self._runs)))
            self._runs[identity] = run
            self._send(Generate(identity, request))
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
            identity = next(self._numbers)
            waiter = self._waiters[identity] = _Waiter(on_progress)
            self._send(MakeModel(identity, source, skip, file_format))
        self._wait(waiter)
        if waiter.made is None:
            raise EngineDiedError("the engine reported no file")
        return waiter.made

    def close(self) -> None:
        """Stops the engine process; closing twice is safe."""
        with self._lock:
            process, connection = self._process, self._connection
            if process is None or connection is None:
                return
            with contextlib.suppress(EngineDiedError):  # then it has ended already
                self._send(Shutdown())
        process.join(STOP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()

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
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._data_folder.ensure()
        # Only the name is imported here: the worker's module loads llama.cpp.
        process = context.Process(
            target=_run_worker,
            args=(theirs, self._data_folder, self._output_file),
            daemon=True,
            name="forerun-engine",
        )
        with _interrupts_blocked():
            process.start()
        theirs.close()
        self._process, self._connection = process, ours
        self._ready = None
        self._ready_event.clear()
        threading.Thread(target=self._receive, args=(process, ours), daemon=True).start()

    @property
    def _output_file(self) -> str:
        return str(self._data_folder.logs / "engine-output.txt")

    def _send(self, command: Command) -> None:
        if self._connection is None:
            raise EngineDiedError("the engine is not running")
        try:
            self._connection.send(command)
        except OSError as error:
            raise EngineDiedError("the engine stopped; try again") from error

    def _cancel(self, identity: int) -> None:
        with self._lock:
            if identity in self._runs and self._connection is not None:
                self._send(Cancel(identity))

    def _wait(self, waiter: _Waiter) -> None:
        waiter.finished.wait()
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
                if waiter is not None and waiter.on_progress is not None:
                    waiter.on_progress(reply)
            elif isinstance(reply, Made):
                waiter = self._waiters.pop(reply.id, None)
                if waiter is not None:
                    waiter.made = Path(reply.path)
                    waiter.finished.set()
            else:
                self._loaded = reply.loaded
                self._finish(reply)

    def _finish(self, reply: Done | Failed) -> None:
        error = None
        if isinstance(reply, Failed):
            error = ERROR_KINDS.get(reply.kind, EngineError)(reply.message)
        waiter = self._waiters.pop(reply.id, None)
        if waiter is not None:
            waiter.error = error
            waiter.finished.set()
        run = self._runs.pop(reply.id, None)
        if run is not None:
            if error is not None:
                run.push(error)
            for place, waiting in enumerate(list(self._runs.values())[1:], start=1):
                waiting.push(Queued(place))

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
            self._connection = self._process = None
            error = EngineDiedError(_last_words(process.exitcode, self._output_file))
            self._needs_reload = self._loaded is not None
            waiters, self._waiters = list(self._waiters.values()), {}
            runs, self._runs = list(self._runs.values()), {}
            self._ready_event.set()
        for waiter in waiters:
            waiter.error = error
            waiter.finished.set()
        for run in runs:
            run.push(error)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process started inside is deaf to Ctrl+C until it decides for itself (not on Windows)."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_worker(connection: Connection, data_folder: DataFolder, output_file: str) -> None:
    """Runs in the engine process; the import must not happen in the interface's."""
    # A terminal's Ctrl+C reaches both processes; the interface decides what it means here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from engine.worker import run_worker

    run_worker(connection, data_folder.root, Path(output_file))


def _last_words(exit_code: int | None, output_file: str) -> str:
    try:
        with open(output_file, encoding="utf-8", errors="replace") as output:
            lines = [line.strip() for line in output.read()[-4000:].splitlines() if line.strip()]
    except OSError:
        lines = []
    reason = next((line for line in reversed(lines) if "ASSERT" in line or "rror" in line), "")
    detail = f": {reason[:300]}" if reason else f" (exit code {exit_code})"
    return (
        f"the engine stopped unexpectedly{detail}; the reply so far is kept, send the next message"
    )
