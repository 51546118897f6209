"""The one way in which a child process is run that speaks JSON, one object a line.

Whatever it does, `messages` comes to an end: it dies, is killed, or hangs and is ended for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

import psutil

from engine.children.json_lines import Message, messages
from engine.children.pulse import Pulse, TreeWork
from engine.children.tree import TERMINATE_SECONDS, end_tree, has_ended

_NEW_GROUP: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)  # Windows
_TICK_SECONDS = 0.5
_ORPHAN_SECONDS = 2.0
"""How long what a dead child has started may hold its pipe open: nothing more comes of it."""
_LAST_BYTES = 4096
_LONGEST_WORDS = 300


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """name: for messages and the log. environment: besides this process's own. folder: in which it
    runs, None for this process's. errors: file for what it writes on stderr, None where only its
    last words matter. input: whether it is told anything.

    mask: rights that files it makes do not get, -1 for this process's own (POSIX).
    idle: seconds after which it is ended if it says nothing and does nothing, as waiting for a
    network does; None never.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    errors: Path | None = None
    input: bool = True
    mask: int = -1
    idle: float | None = None


class JsonChild:
    """Leaving the `with` block ends it and all it has started. One thread reads `messages`."""

    def __init__(self, plan: ChildPlan) -> None:
        """Starts it. OSError when that cannot be."""
        self._plan = plan
        self._hung = False
        self._read = False
        self._closed = threading.Event()
        self._errors: IO[bytes]
        if plan.errors is not None:
            self._errors = plan.errors.open("w+b")
        else:
            self._errors = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                list(plan.command),
                stdin=subprocess.PIPE if plan.input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=plan.folder,
                umask=plan.mask,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict(plan.environment),
                # Ctrl+C in a terminal is the parent's to handle.
                start_new_session=sys.platform != "win32",
                creationflags=_NEW_GROUP,
            )
        except BaseException:
            self._errors.close()
            raise
        self.pid = self._process.pid
        self._pulse = Pulse(TreeWork(self.pid))
        self._process_info = psutil.Process(self.pid)
        threading.Thread(target=self._watch, name=f"{plan.name}-watch", daemon=True).start()

    def __enter__(self) -> JsonChild:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def messages(self) -> Iterator[Message]:
        """All of them, to its end; then `wait` has its exit code."""
        if self._process.stdout is None:
            return
        for message in messages(self._process.stdout, self._plan.name):
            self._pulse.heard()
            yield message
        self._process.wait()
        self._read = True

    def send(self, line: str) -> None:
        """A child that has ended is no error here: how it ended tells why."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except OSError:
            return

    def end_input(self) -> None:
        """Tells it that nothing more comes."""
        if self._process.stdin is None:
            return
        try:
            self._process.stdin.close()
        except OSError:
            return  # what was still to be written: it has ended

    def interrupt(self) -> None:
        """As Ctrl+C, also for what it has started."""
        if not self.is_running:
            return
        if sys.platform == "win32":
            self._process.send_signal(signal.CTRL_BREAK_EVENT)
        else:
            os.killpg(self.pid, signal.SIGINT)
            os.killpg(self.pid, signal.SIGCONT)  # one that was suspended could not hear it

    def terminate(self) -> None:
        """Asks it to end."""
        if self.is_running:
            self._process_info.terminate()

    def kill(self) -> None:
        """Ends it and all it has started, at once; from any thread, also twice."""
        end_tree(self.pid, terminate_seconds=0.0)
        self._end_orphans()

    def end(self, seconds: float = TERMINATE_SECONDS) -> None:
        """As kill, but it is asked first and has so many seconds."""
        end_tree(self.pid, seconds)
        self._end_orphans()

    def _end_orphans(self) -> None:
        """What a child that has ended left running in its group."""
        if sys.platform != "win32" and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    @property
    def is_running(self) -> bool:
        return not has_ended(self._process_info)

    def wait(self) -> int:
        """Its exit code."""
        return self._process.wait()

    def close(self) -> None:
        """Ends it if it still runs, and frees what was open; closing twice is safe."""
        self.kill()
        self.wait()
        self._closed.set()
        self.end_input()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def exit_reason(self) -> str:
        """Why it ended, in one line; before `close`."""
        if self._hung:
            return f"it did not answer for {self._plan.idle:.0f} seconds"
        end = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, end - _LAST_BYTES))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[-_LONGEST_WORDS:] if lines else f"exit code {self.wait()}"

    def _watch(self) -> None:
        orphaned = 0.0
        while not self._closed.wait(_TICK_SECONDS) and not self._read:
            passed = self._pulse.tick()
            if has_ended(self._process_info):
                orphaned += passed
                if orphaned >= _ORPHAN_SECONDS:
                    self._end_orphans()
            elif self._plan.idle is not None and self._pulse.idle >= self._plan.idle:
                self._hung = True
                self.kill()
