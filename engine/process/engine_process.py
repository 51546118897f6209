"""One engine process as the interface has it: a pipe, and a thread that reads it to the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing.connection import wait

from engine.data.errors import EngineDiedError
from engine.data.folders import DataFolder
from engine.process.messages import Command, EngineMessage, Ready
from engine.process.spawn import exit_reason, output_file, start_process

START_SECONDS = 120.0
STOP_SECONDS = 5.0


class EngineProcess:
    """on_reply, on_end: called in the reading thread; on_end once, when the process is gone."""

    def __init__(
        self,
        data_folder: DataFolder,
        on_reply: Callable[[EngineMessage], None],
        on_end: Callable[[EngineProcess], None],
    ) -> None:
        """Starts it. EngineDiedError if it cannot be started."""
        self._data_folder = data_folder
        self._on_reply = on_reply
        self._on_end = on_end
        self._process, self._connection = start_process(data_folder)
        self._ready: Ready | None = None
        self._ready_event = threading.Event()
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._receiver.start()

    def ready(self) -> Ready:
        """Waits until it takes commands. EngineDiedError if it does not come to that."""
        if not self._ready_event.wait(START_SECONDS) or self._ready is None:
            raise EngineDiedError(f"the engine did not start; see {output_file(self._data_folder)}")
        return self._ready

    @property
    def pid(self) -> int | None:
        """None before it is ready."""
        return self._ready.pid if self._ready is not None else None

    @property
    def has_ended(self) -> bool:
        """Perhaps before on_end has been called."""
        return bool(wait([self._process.sentinel], 0))

    def send(self, command: Command) -> None:
        try:
            self._connection.send(command)
        except OSError as error:
            raise EngineDiedError("the engine stopped; try again") from error

    def join(self) -> None:
        """Waits for its end, and until on_end has returned."""
        self._receiver.join()

    def stop(self) -> None:
        """After Shutdown was sent: waits for the end, and forces it if it takes long."""
        self._process.join(STOP_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.join()

    def exit_reason(self) -> str:
        """Why it ended, in one line."""
        return exit_reason(self._process.exitcode, self._data_folder)

    def _receive(self) -> None:
        while True:
            try:
                reply: EngineMessage = self._connection.recv()
            except (EOFError, OSError):
                break
            if isinstance(reply, Ready):
                self._ready = reply
                self._ready_event.set()
            else:
                self._on_reply(reply)
        self._process.join()
        self._connection.close()
        self._ready = None
        self._on_end(self)
        self._ready_event.set()
