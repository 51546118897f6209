"""The engine process: takes commands from a pipe, owns the models, never touches the interface.

llama.cpp ends the whole process on failed assertions and bad tensors; then only this process is
gone and engine.process.client starts another.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue

from engine.data.errors import EngineError, StoppedError, StopRequested
from engine.data.events import Finished
from engine.data.folders import DataFolder
from engine.data.shown import shown
from engine.data.stats import Stats
from engine.files.privacy import keep_private
from engine.llama.abort import AbortFlag
from engine.llama.library import Library, devices, start_library
from engine.process.counter import Counter
from engine.process.messages import (
    AnswerNow,
    Begun,
    Calibrate,
    Cancel,
    Command,
    Count,
    Done,
    Failed,
    Generate,
    LayersFound,
    Load,
    LoadProgress,
    LogLines,
    Made,
    MakeModel,
    Noticed,
    Ready,
    RunUpdate,
    SearchLayers,
    Shutdown,
    Unload,
)
from engine.process.outlet import Outlet
from engine.serving.session import Session

_LOG_SECONDS = 0.25


def run_worker(outlet: Outlet, data_root: Path, output_file: Path) -> None:
    """Serves until Shutdown or until the other end is gone."""
    keep_private()  # all that it writes is in the data folder
    _redirect_output(output_file)
    library = start_library()
    worker = Worker(outlet, library, DataFolder(data_root))
    worker.serve()


class Worker:
    def __init__(self, outlet: Outlet, library: Library, data_folder: DataFolder) -> None:
        self._outlet = outlet
        self._send = outlet.send
        self._library = library
        self._commands: Queue[Command] = Queue()
        self._abort = AbortFlag()
        self._cancellation = _Cancellation(self._abort)
        self._told_to_answer: set[int] = set()
        self._session = Session(library, data_folder, self._abort)
        self._counter = Counter(self._session.counting.size, outlet.send)
        self._stopped = threading.Event()

    def serve(self) -> None:
        library = self._library
        self._send(Ready(os.getpid(), library.version, library.symbols, devices()))
        threading.Thread(target=self._receive, daemon=True).start()
        threading.Thread(target=self._pump_log, daemon=True).start()
        self._counter.start()
        while True:
            command = self._commands.get()
            if isinstance(command, Shutdown):
                break
            self._serve_one(command)
        self._stopped.set()
        self._session.unload()

    def _serve_one(self, command: Command) -> None:
        if isinstance(command, Cancel | AnswerNow | Count | Shutdown):
            return
        self._cancellation.begin(command.id)
        self._send(Begun(command.id))
        try:
            self._act(command)
        except StopRequested:
            self._fail(command.id, StoppedError("it was stopped"))
        except EngineError as error:
            self._fail(command.id, error)
        finally:
            self._cancellation.end()
            self._told_to_answer.discard(command.id)

    def _fail(self, identity: int, error: EngineError) -> None:
        self._send(Failed(identity, type(error).__name__, str(error), self._session.summary))

    def _act(self, command: Command) -> None:
        if isinstance(command, Load | Calibrate):
            self._load(command)
        elif isinstance(command, Generate):
            self._generate(command)
        elif isinstance(command, MakeModel):
            self._make(command)
        elif isinstance(command, SearchLayers):
            self._search(command)
        elif isinstance(command, Unload):
            self._session.unload()
            self._send(Done(command.id, None))

    def _reporter(self, identity: int) -> Callable[[str, float], None]:
        """Tells how far a long step is, and ends it when it was told to stop: all that reports can
        be stopped. What winds up after that clears the abort flag first, and goes on."""

        def report(label: str, fraction: float) -> None:
            if self._cancellation.is_set():
                if self._abort.is_set:
                    raise StopRequested
                self._send(Noticed(identity))
            self._send(LoadProgress(identity, shown(label), fraction))

        return report

    def _load(self, command: Load | Calibrate) -> None:
        if self._cancellation.is_set():  # cancelled while others came first
            raise StopRequested
        thorough = isinstance(command, Calibrate)
        act = self._session.calibrate if thorough else self._session.load
        self._send(Done(command.id, act(command.request, self._reporter(command.id))))

    def _make(self, command: MakeModel) -> None:
        report = self._reporter(command.id)
        path = self._session.make_model(
            command.source,
            command.skip,
            command.file_format,
            lambda fraction: report("writing the copy", fraction),
        )
        self._send(Made(command.id, str(path)))

    def _search(self, command: SearchLayers) -> None:
        def cancelled() -> bool:
            if self._cancellation.is_set():
                self._send(Noticed(command.id))  # the best so far is checked, which takes a while
            return self._cancellation.is_set()

        found = self._session.search_layers(command.request, self._reporter(command.id), cancelled)
        self._send(LayersFound(command.id, found))

    def _generate(self, command: Generate) -> None:
        if self._cancellation.is_set():  # cancelled while others came first: caches stay
            seed = command.request.sampling.seed or 0
            nothing = Finished("", (), "cancelled", 0, 0, seed, Stats())
            self._send(RunUpdate(command.id, nothing))
        else:
            events = self._session.generate(
                command.request,
                self._cancellation.is_set,
                lambda: command.id in self._told_to_answer,
            )
            for event in events:
                self._send(RunUpdate(command.id, event))
        self._send(Done(command.id, self._session.summary))

    def _receive(self) -> None:
        """Cancel and AnswerNow act at once, Count is answered beside; all else waits its turn."""
        while True:
            command = self._outlet.receive()
            if isinstance(command, Cancel):
                self._cancellation.request(command.id)
            elif isinstance(command, AnswerNow):
                self._told_to_answer.add(command.id)
            elif isinstance(command, Count):
                self._counter.ask(command)
            else:
                self._commands.put(command)

    def _pump_log(self) -> None:
        while not self._stopped.wait(_LOG_SECONDS):
            lines = self._library.log.take()
            if lines:
                self._send(LogLines(lines))


class _Cancellation:
    """Which runs are to stop; sets the abort flag only for the one that runs now."""

    def __init__(self, abort: AbortFlag) -> None:
        self._abort = abort
        self._lock = threading.Lock()
        self._requested: set[int] = set()
        self._running: int | None = None

    def request(self, identity: int) -> None:
        with self._lock:
            self._requested.add(identity)
            if identity == self._running:
                self._abort.set()

    def begin(self, identity: int) -> None:
        with self._lock:
            self._running = identity
            self._abort.clear()
            if identity in self._requested:
                self._abort.set()

    def end(self) -> None:
        with self._lock:
            if self._running is not None:
                self._requested.discard(self._running)
            self._running = None
            self._abort.clear()

    def is_set(self) -> bool:
        with self._lock:
            return self._running in self._requested


def _redirect_output(output_file: Path) -> None:
    """What native code prints before it aborts goes to a file, not to the terminal."""
    output_file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
