"""A child process that collects or trains, from its parent's side: settings in, JSON lines out."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.data.errors import ERROR_KINDS, RunError

Message = dict[str, Any]
Told = queue.Queue[tuple[int, Message]]

FINISH = "finish"
"""The line on a child's stdin that asks for a result; without it, the end of stdin is a parent that
is gone."""

_ROOT = Path(__file__).resolve().parents[2]
_NEW_GROUP: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)  # Windows
_POLL_SECONDS = 0.3
_LAST_WORDS = 300


class Child:
    """`python -m engine.train.MODULE ...`. Its messages go into a queue, its death is one of them.

    request: the JSON object that it gets first. number: comes with its messages.
    """

    def __init__(self, command: tuple[str, ...], request: Message, told: Told, number: int) -> None:
        module, *arguments = command
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"engine.train.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            cwd=_ROOT,
            # Ctrl-C in a terminal is the parent's to handle.
            start_new_session=sys.platform != "win32",
            creationflags=_NEW_GROUP,
        )
        self._told = told
        self._number = number
        self._errors = ""
        self._complaints = threading.Thread(target=self._read_errors, daemon=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._complaints.start()
        self._reader.start()
        self._write(json.dumps(request) + "\n")

    def _write(self, text: str) -> None:
        if self._process.stdin is None:
            raise ValueError("the process has no input")
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except OSError:
            return  # it has died, which the reader tells; Windows has its own error for it

    def _read(self) -> None:
        if self._process.stdout is None:
            raise ValueError("the process has no output")
        concluded = False
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue  # a library's own words
            message = json.loads(line)
            concluded = concluded or "error" in message or "card" in message or "result" in message
            self._told.put((self._number, message))
        code = self._process.wait()
        self._complaints.join()
        if not concluded:
            words = self._errors.strip().rpartition("\n")[2] or f"exit code {code}"
            text = f"the process that works on it ended unexpectedly: {words}"
            self._told.put((self._number, {"error": "EngineDiedError", "message": text}))

    def _read_errors(self) -> None:
        if self._process.stderr is not None:
            for line in self._process.stderr:
                self._errors = (self._errors + line)[-_LAST_WORDS:]

    @property
    def is_running(self) -> bool:
        return self._reader.is_alive()

    def finish(self) -> None:
        """Asks it to make a result of what it has, and to end."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._write(f"{FINISH}\n")
            self.end()

    def end(self) -> None:
        """Tells it that nobody waits for it: it keeps what it needs to go on, and ends."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def suspend(self) -> None:
        """Tells it so even if it was asked to finish before."""
        self.end()
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self) -> None:
        self._reader.join()
        self._complaints.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def follow(
    children: list[Child],
    told: Told,
    hear: Callable[[int, Message], None],
    stop: Callable[[], bool],
) -> None:
    """Until all have ended; has them finish when stop() says so, and end when this is interrupted.

    EngineError of the first one that failed, once all have ended.
    """
    failures: list[Message] = []
    try:
        while any(child.is_running for child in children) or not told.empty():
            if stop():
                for child in children:
                    child.finish()
            try:
                number, message = told.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if "error" in message:
                failures.append(message)
            else:
                hear(number, message)
    except BaseException:
        for child in children:
            child.suspend()
        raise
    finally:
        for child in children:
            child.end()
            child.wait()
    if failures:
        kind = ERROR_KINDS.get(str(failures[0]["error"]), RunError)
        raise kind(str(failures[0]["message"]))
