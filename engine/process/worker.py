"""The engine process: takes commands from a pipe, owns the models, never touches the interface.

llama.cpp ends the whole process on failed assertions and bad tensors; then only this process is
gone and engine.process.client starts another.
"""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Queue

from engine.data.errors import EngineError
from engine.data.events import Finished
from engine.data.folders import DataFolder
from engine.data.shown import shown
from engine.data.stats import Stats
from engine.llama.abort import AbortFlag
from engine.llama.library import Library, start_library
from engine.process.messages import (
    Calibrate,
    Cancel,
    Command,
    Done,
    EngineMessage,
    Failed,
    Generate,
    LayersFound,
    Load,
    LoadProgress,
    LogLines,
    Made,
    MakeModel,
    Ready,
    RunUpdate,
    SearchLayers,
    Shutdown,
    Unload,
)
from engine.serving.session import Session

_LOG_SECONDS = 0.25


def run_worker(connection: Connection, data_root: Path, output_file: Path) -> None:
    """Serves until Shutdown or until the other end is gone."""
    _redirect_output(output_file)
    library = start_library()
    worker = Worker(connection, library, DataFolder(data_root))
    worker.serve()


class Worker:
    def __init__(self, connection: Connection, library: Library, data_folder: DataFolder) -> None:
        self._connection = connection
        self._library = library
        self._commands: Queue[Command] = Queue()
        self._send_lock = threading.Lock()
        self._abort = AbortFlag()
        self._cancellation = _Cancellation(self._abort)
        self._session = Session(library, data_folder, self._abort)
        self._stopped = threading.Event()

    def serve(self) -> None:
        self._send(Ready(os.getpid(), self._library.version, self._library.symbols))
        threading.Thread(target=self._receive, daemon=True).start()
        threading.Thread(target=self._pump_log, daemon=True).start()
        while True:
            command = self._commands.get()
            if isinstance(command, Shutdown):
                break
            self._serve_one(command)
        self._stopped.set()
        self._session.unload()

    def _serve_one(self, command: Command) -> None:
        try:
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
        except EngineError as error:
            identity = command.id if not isinstance(command, Shutdown) else 0
            kind = type(error).__name__
            self._send(Failed(identity, kind, str(error), self._session.summary))

    def _load(self, command: Load | Calibrate) -> None:
        def report(label: str, fraction: float) -> None:
            self._send(LoadProgress(command.id, shown(label), fraction))

        thorough = isinstance(command, Calibrate)
        act = self._session.calibrate if thorough else self._session.load
        self._send(Done(command.id, act(command.request, report)))

    def _make(self, command: MakeModel) -> None:
        def report(fraction: float) -> None:
            self._send(LoadProgress(command.id, "writing the copy", fraction))

        path = self._session.make_model(command.source, command.skip, command.file_format, report)
        self._send(Made(command.id, str(path)))

    def _search(self, command: SearchLayers) -> None:
        def report(label: str, fraction: float) -> None:
            self._send(LoadProgress(command.id, shown(label), fraction))

        self._cancellation.begin(command.id)
        try:
            found = self._session.search_layers(command.request, report, self._cancellation.is_set)
        finally:
            self._cancellation.end()
        self._send(LayersFound(command.id, found))

    def _generate(self, command: Generate) -> None:
        self._cancellation.begin(command.id)
        try:
            if self._cancellation.is_set():  # cancelled while others came first: caches stay
                seed = command.request.sampling.seed or 0
                nothing = Finished("", (), "cancelled", 0, 0, seed, Stats())
                self._send(RunUpdate(command.id, nothing))
            else:
                for event in self._session.generate(command.request, self._cancellation.is_set):
                    self._send(RunUpdate(command.id, event))
        finally:
            self._cancellation.end()
        self._send(Done(command.id, self._session.summary))

    def _receive(self) -> None:
        """Cancel acts at once; everything else waits its turn."""
        while True:
            try:
                command = self._connection.recv()
            except (EOFError, OSError):
                os._exit(0)  # the interface is gone, and a native pass may be running
            if isinstance(command, Cancel):
                self._cancellation.request(command.id)
            else:
                self._commands.put(command)

    def _pump_log(self) -> None:
        while not self._stopped.wait(_LOG_SECONDS):
            lines = self._library.log.take()
            if lines:
                self._send(LogLines(lines))

    def _send(self, reply: EngineMessage) -> None:
        with self._send_lock:
            try:
                self._connection.send(reply)
            except OSError:
                os._exit(0)


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
    descriptor = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
