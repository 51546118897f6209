"""The process that trains: `forerun train ... --json`, one JSON object a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from engine.children.json_child import ChildPlan, JsonChild
from engine.children.tree import end_tree

COMMAND = (sys.executable, "-m", "app", "train")
_ROOT = Path(__file__).resolve().parent.parent
_END_SECONDS = 5.0
"""To write down how far it is, before it is ended."""
_IDLE_SECONDS = 90.0
"""Longer than its own children get: it is the one to say what became of them."""


class TrainingChild:
    """errors: the file that gets what it writes on stderr. OSError when it cannot start."""

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        self._child = JsonChild(
            ChildPlan(
                name="forerun train",
                command=command,
                folder=_ROOT,
                errors=errors,
                input=False,
                idle=_IDLE_SECONDS,
            )
        )
        self.pid = self._child.pid

    def messages(self) -> Iterator[dict[str, Any]]:
        """Until it ends, or hangs and is ended."""
        return self._child.messages()

    def outcome(self) -> tuple[int, str]:
        """Its exit code and its last line on stderr, without the program's name. Ends it."""
        self._child.kill()
        code = self._child.wait()
        words = self._child.exit_reason().removeprefix("forerun: ")
        self._child.close()
        return code, words

    def interrupt(self) -> None:
        """As Ctrl+C: it stops training and keeps the best so far."""
        self._child.interrupt()

    def end(self) -> None:
        """With everything it has started; what it has not finished is taken up by a resume."""
        self._child.end(_END_SECONDS)


def end_left_over(pid: int) -> None:
    """A training that an earlier run of Forerun has left."""
    end_tree(pid, _END_SECONDS)


def is_running(pid: int, since: float, argument: str) -> bool:
    """Whether that process runs, was started with that argument, and is not another one that got
    its number after `since`."""
    try:
        process = psutil.Process(pid)
        return process.create_time() <= since and argument in process.cmdline()
    except psutil.Error:
        return False
