"""One engine process as the interface has it: a pipe, what is read from it, and who watches it.

Three threads: one reads to the end; one writes, since a process that does not read must hold up
nobody else; one watches, and ends a process that hangs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from queue import SimpleQueue

from engine.children.pulse import ProcessWork, Pulse
from engine.children.tree import end_tree
from engine.data.errors import EngineDiedError
from engine.data.folders import DataFolder
from engine.process.messages import (
    Alive,
    Command,
    Done,
    EngineMessage,
    Failed,
    LayersFound,
    Made,
    Noticed,
    Ready,
)
from engine.process.overseer import TICK_SECONDS, Limits, Overseer
from engine.process.spawn import exit_reason, output_file, start_process

STOP_SECONDS = 5.0


class EngineProcess:
    """on_reply, on_end: called in the reading thread; on_end once, when the process is gone."""

    def __init__(
        self,
        data_folder: DataFolder,
        on_reply: Callable[[EngineMessage], None],
        on_end: Callable[[EngineProcess], None],
        limits: Limits,
        *,
        patient: bool = False,
    ) -> None:
        """Starts it; patient: with the longer limit. EngineDiedError if it cannot be started."""
        self._data_folder = data_folder
        self._on_reply = on_reply
        self._on_end = on_end
        self._process, self._connection = start_process(data_folder)
        pid = self._process.pid or 0
        seconds = limits.patient_start if patient else limits.start
        self._overseer = Overseer(Pulse(ProcessWork(pid)), limits, seconds)
        self._ready: Ready | None = None
        self._ready_event = threading.Event()
        self._ended = threading.Event()
        self._verdict = ""
        self._outbox: SimpleQueue[Command | None] = SimpleQueue()
        self._sender = threading.Thread(target=self._write, name="engine-out", daemon=True)
        self._receiver = threading.Thread(target=self._receive, name="engine-in", daemon=True)
        self._sender.start()
        self._receiver.start()
        threading.Thread(target=self._watch, name="engine-watch", daemon=True).start()

    def ready(self) -> Ready:
        """Waits until it takes commands. EngineDiedError if it does not come to that."""
        self._ready_event.wait()  # it is ended when it does not start
        ready = self._ready
        if ready is None:
            raise EngineDiedError(
                f"the engine did not start: {self.exit_reason()}; see "
                f"{output_file(self._data_folder)}"
            )
        return ready

    @property
    def pid(self) -> int | None:
        """None before it is ready."""
        return self._ready.pid if self._ready is not None else None

    @property
    def was_ended(self) -> bool:
        """Whether it hung, or did not stop."""
        return bool(self._verdict)

    @property
    def was_slow_to_start(self) -> bool:
        """Whether it was ended before its first word."""
        return bool(self._verdict) and not self._overseer.has_spoken

    def send(self, command: Command) -> None:
        """Never blocks. What a process that ends has not begun is in nobody's hands."""
        self._outbox.put(command)

    def expect_end(self, identity: int) -> None:
        """The command was cancelled: a process that does not end it soon is ended itself."""
        self._overseer.expect_end(identity)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """After Shutdown was sent: waits for the end, forces it, waits until on_end returned."""
        if not wait([self._process.sentinel], seconds):
            self._end()
        self._receiver.join()

    def exit_reason(self) -> str:
        """Why it ended, in one line."""
        return self._verdict or exit_reason(self._process.exitcode, self._data_folder)

    def _end(self) -> None:
        if self._process.pid is not None:
            end_tree(self._process.pid)

    def _watch(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            verdict = self._overseer.verdict()
            if verdict:
                self._verdict = verdict
                self._end()
                return

    def _write(self) -> None:
        while (command := self._outbox.get()) is not None:
            try:
                self._connection.send(command)
            except OSError:
                return  # it has ended, which the reading thread sees as well

    def _receive(self) -> None:
        try:
            while True:
                self._take(self._connection.recv())
        except (EOFError, OSError):
            pass  # the process is gone, or its end of the pipe
        finally:
            self._settle()

    def _take(self, reply: EngineMessage) -> None:
        self._overseer.heard()
        if isinstance(reply, Alive):
            return
        if isinstance(reply, Ready):
            self._overseer.is_ready()
            self._ready = reply
            self._ready_event.set()
        self._on_reply(reply)
        # Afterwards: whoever cancels it until now finds it unfinished, and expects its end.
        if isinstance(reply, Done | Failed | Noticed | Made | LayersFound):
            self._overseer.answered(reply.id)

    def _settle(self) -> None:
        """Whatever ended the reading: the process ends too, and everyone hears of it."""
        if not wait([self._process.sentinel], STOP_SECONDS):
            self._end()
        self._process.join()
        self._ended.set()
        self._outbox.put(None)
        self._sender.join()
        self._connection.close()
        self._ready = None
        try:
            self._on_end(self)
        finally:
            self._ready_event.set()
