"""The process that trains: `forerun train ... --json`, one JSON object a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from engine.data.documents import parse_json

COMMAND = (sys.executable, "-m", "app", "train")
_ROOT = Path(__file__).resolve().parent.parent
_END_SECONDS = 5.0


class TrainingChild:
    """errors: the file that gets what it writes on stderr."""

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        self._errors = errors
        if sys.platform == "win32":
            flags = subprocess.CREATE_NEW_PROCESS_GROUP
        else:
            flags = 0
        # A group of its own, so that Ctrl+C in the page's terminal is the page's to handle.
        with errors.open("wb") as stderr:
            self._process = subprocess.Popen(
                list(command),
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                encoding="utf-8",
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                start_new_session=sys.platform != "win32",
                creationflags=flags,
            )
        self.pid = self._process.pid

    def messages(self) -> Iterator[dict[str, Any]]:
        """Until it ends. Lines that are not JSON objects are of no interest."""
        if self._process.stdout is None:
            return
        with self._process.stdout as lines:
            for line in lines:
                message = _parsed(line)
                if message is not None:
                    yield message

    def wait(self) -> int:
        return self._process.wait()

    def reason(self) -> str:
        """The last line on stderr, without the program's name."""
        lines = self._errors.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1].removeprefix("forerun: ") if lines else ""

    def interrupt(self) -> None:
        """As Ctrl+C: it stops training and keeps the best so far."""
        if self._process.poll() is not None:
            return
        if sys.platform == "win32":
            self._process.send_signal(signal.CTRL_BREAK_EVENT)
        else:
            os.killpg(self.pid, signal.SIGINT)

    def end(self) -> None:
        """With everything it has started; what it has not finished is taken up by a resume."""
        end_tree(self.pid)
        self._process.wait()


def end_tree(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        tree = [*process.children(recursive=True), process]
    except psutil.NoSuchProcess:
        return
    _signal_all(tree, psutil.Process.terminate)
    _, alive = psutil.wait_procs(tree, timeout=_END_SECONDS)
    _signal_all(alive, psutil.Process.kill)
    psutil.wait_procs(alive, timeout=_END_SECONDS)


def is_running(pid: int, since: float) -> bool:
    """Whether that process runs and is not another one that got its number after `since`."""
    try:
        return psutil.Process(pid).create_time() <= since
    except psutil.NoSuchProcess:
        return False


def _signal_all(tree: Sequence[psutil.Process], action: Any) -> None:
    for process in tree:
        try:
            action(process)
        except psutil.NoSuchProcess:
            continue


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        message = parse_json(line, repair=True)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
