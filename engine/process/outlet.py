"""The engine process's side of the pipe, and the sign of life that it sends from its first moment.

Loads nothing large: the sign must come while the rest is still being imported.
"""

from __future__ import annotations

import os
import threading
from multiprocessing.connection import Connection

from engine.process.messages import Alive, Command, EngineMessage

ALIVE_SECONDS = 1.0


class Outlet:
    """Thread-safe for sending; one thread receives."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, reply: EngineMessage) -> None:
        """Ends this process when the other end is gone: nobody is left to work for."""
        with self._lock:
            try:
                self._connection.send(reply)
            except OSError:
                os._exit(0)

    def receive(self) -> Command:
        """Ends this process when the other end is gone, whatever native code is running."""
        try:
            command: Command = self._connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        return command

    def show_life(self) -> None:
        """From now on, in a thread: native code lets other threads run."""
        threading.Thread(target=self._show_life, name="sign-of-life", daemon=True).start()

    def _show_life(self) -> None:
        never = threading.Event()
        while not never.wait(ALIVE_SECONDS):
            self.send(Alive())
