"""The interface's side of the engine process: start it, talk to it, start it again."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from engine.data.errors import EngineDiedError
from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from engine.data.log_line import LogLine
from engine.data.request import GenerateRequest, LoadRequest
from engine.process.engine_process import EngineProcess
from engine.process.messages import (
    Calibrate,
    Cancel,
    Command,
    Done,
    EngineMessage,
    Failed,
    Generate,
    Load,
    LogLines,
    MakeModel,
    Ready,
    SearchLayers,
    Shutdown,
    Unload,
)
from engine.process.run import Run
from engine.process.waiting import ProgressCallback, Waiter, Waiting
from engine.skip.report import SkipReport, SkipSearchRequest

KEPT_LOG_LINES = 2000


class EngineClient:
    """Thread-safe. Commands are served in order; a dead engine is replaced at the next command."""

    def __init__(self, data_folder: DataFolder) -> None:
        self._data_folder = data_folder
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._engine: EngineProcess | None = None
        self._waiting = Waiting()
        self._loaded: LoadedSummary | None = None
        self._needs_reload = False
        self._log: deque[LogLine] = deque(maxlen=KEPT_LOG_LINES)
        self._log_count = 0

    # Commands

    def start(self) -> Ready:
        """Starts the engine process if none runs. EngineDiedError when it cannot start."""
        self._await_exit()
        with self._lock:
            if self._engine is None:
                self._engine = EngineProcess(self._data_folder, self._dispatch, self._on_exit)
            engine = self._engine
        return engine.ready()

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
        waiter.wait(on_progress)
        if waiter.loaded is None:
            raise EngineDiedError("the engine reported no loaded model")
        return waiter.loaded

    def unload(self) -> None:
        self.start()
        with self._lock:
            self._needs_reload = False
            waiter = self._submit(Unload)
        waiter.wait()

    def generate(self, request: GenerateRequest) -> Run:
        """Returns at once; other runs come first, their number is told by Queued events."""
        self.start()
        with self._lock:
            reload = self._send_reload()
            identity = next(self._numbers)
            run = Run(identity, lambda: self._cancel(identity, request.sampling.seed or 0))
            self._send(Generate(identity, request))
            if reload is not None:
                self._waiting.add_reload(reload, identity)
            self._waiting.add_run(run)
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
        waiter.wait(on_progress)
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
            waiter.wait(on_progress)
        except KeyboardInterrupt:
            with self._lock:
                self._send(Cancel(waiter.identity))
            waiter.wait(on_progress)
        if waiter.found is None:
            raise EngineDiedError("the engine reported no layers")
        return waiter.found

    def close(self) -> None:
        """Stops runs and the engine process; closing twice is safe."""
        with self._lock:
            engine = self._engine
            if engine is None:
                return
            with contextlib.suppress(EngineDiedError):  # then it has ended already
                for identity in self._waiting.runs:
                    self._send(Cancel(identity))
                self._send(Shutdown())
        engine.stop()

    # State

    @property
    def loaded(self) -> LoadedSummary | None:
        """What is in memory, or comes back with the next command after the engine died."""
        return self._loaded

    @property
    def pid(self) -> int | None:
        return self._engine.pid if self._engine is not None else None

    def log_lines(self, after: int = 0) -> tuple[LogLine, ...]:
        """Native log lines with a number above `after`, oldest first."""
        with self._lock:
            return tuple(line for line in self._log if line.number > after)

    # The process

    def _await_exit(self) -> None:
        """Where the process has ended but its reading thread has not said so yet."""
        engine = self._engine
        if engine is not None and engine.has_ended:
            engine.join()

    def _send(self, command: Command) -> None:
        if self._engine is None:
            raise EngineDiedError("the engine is not running")
        self._engine.send(command)

    def _submit(self, make: Callable[[int], Command]) -> Waiter:
        """Sends a command whose end someone waits for; with the lock held."""
        identity = next(self._numbers)
        self._send(make(identity))
        return self._waiting.add_waiter(identity)

    def _send_reload(self) -> int | None:
        """Brings back what a dead engine had loaded; the command's number if that was needed."""
        if not self._needs_reload or self._loaded is None:
            return None
        identity = next(self._numbers)
        self._send(Load(identity, self._loaded.request))
        self._waiting.add_reload(identity)
        self._needs_reload = False
        return identity

    def _cancel(self, identity: int, seed: int) -> None:
        """A run that waits behind another ends at once; the engine will skip it."""
        with self._lock:
            if self._engine is None or not self._waiting.cancel(identity, seed):
                return
            with contextlib.suppress(EngineDiedError):  # the run itself is told
                self._send(Cancel(identity))

    # Replies

    def _dispatch(self, reply: EngineMessage) -> None:
        with self._lock:
            if isinstance(reply, Ready):
                return  # the process object keeps it
            if isinstance(reply, LogLines):
                self._keep_log(reply)
                return
            if isinstance(reply, Done | Failed):
                self._loaded = reply.loaded
            self._waiting.take(reply)

    def _keep_log(self, reply: LogLines) -> None:
        """Numbers go on across engine restarts."""
        for line in reply.lines:
            self._log_count += 1
            self._log.append(LogLine(self._log_count, line.level, line.text))

    def _on_exit(self, engine: EngineProcess) -> None:
        """The process is gone: everyone who waits is told, the next command starts another."""
        with self._lock:
            if self._engine is not engine:
                return
            self._engine = None
            if self._waiting.is_reloading:  # it died of what it was to bring back, and would again
                self._loaded = None
            died = f"the engine stopped unexpectedly: {engine.exit_reason()}"
            self._needs_reload = self._loaded is not None
            back = "what was loaded before comes back when needed"
            again = "send the next message"
            if self._loaded is None:
                back = again = "choose a model and load it"
            waiters, runs = self._waiting.give_up()
        for waiter in waiters:
            waiter.end(EngineDiedError(f"{died}; {back}"))
        for run in runs:
            run.push(EngineDiedError(f"{died}; the reply so far is kept, {again}"))
