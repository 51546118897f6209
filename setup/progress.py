"""Runs a long command: everything into a log file, one line of progress on the screen."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from setup.errors import SetupError

_LAST_LINES = 8
_ERROR_LINES = 6
_ERROR = re.compile(r"CMake Error|\b(fatal )?error:|No space left|ERROR: ")
_SECONDS_BETWEEN_LINES = 20.0  # where the output is no terminal: often enough to look alive

_PATTERNS = (
    (re.compile(r"^\s*\[\s*(\d+)/(\d+)\]"), "compiling llama.cpp, file {0} of {1}"),
    (re.compile(r"^\s*\[\s*(\d+)%\]"), "compiling llama.cpp, {0} %"),
    (re.compile(r"^\s*Downloading (\S+?)-\d\S* \(([^)]+)\)"), "downloading {0} ({1})"),
    (re.compile(r"^\s*Collecting ([\w.\-]+)"), "looking up {0}"),
    (re.compile(r"^\s*Building wheel for (\S+)"), "building {0}"),
    (re.compile(r"^\s*Installing collected packages"), "installing packages"),
    (re.compile(r"^\s*Installing build dependencies"), "fetching build tools"),
)


def describe(line: str) -> str | None:
    """What a line of pip's or the compiler's output says about the progress, if anything."""
    for pattern, text in _PATTERNS:
        if found := pattern.match(line):
            return text.format(*found.groups())
    return None


def elapsed(seconds: float) -> str:
    """Minutes and seconds, as in 4:07."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class ProgressLine:
    """One line that is rewritten on a terminal, or a line now and then anywhere else."""

    def __init__(self, stream: IO[str], title: str) -> None:
        self._stream = stream
        self._title = title
        self._started = time.monotonic()
        self._printed = self._started - _SECONDS_BETWEEN_LINES
        self._width = 0

    def show(self, detail: str) -> None:
        now = time.monotonic()
        text = f"{self._title}  {elapsed(now - self._started)}  {detail}".rstrip()[:110]
        if self._stream.isatty():
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif now - self._printed >= _SECONDS_BETWEEN_LINES:
            self._stream.write(text + "\n")
            self._printed = now
        self._stream.flush()

    def end(self, word: str) -> None:
        text = f"{self._title}  {elapsed(time.monotonic() - self._started)}  {word}"
        start = "\r" if self._stream.isatty() else ""
        self._stream.write(start + text.ljust(self._width) + "\n")
        self._stream.flush()


def run_logged(command: Sequence[str], title: str, log: Path, env: dict[str, str]) -> None:
    """Run to the end. Raises SetupError with the log's path and last lines if it fails."""
    line = ProgressLine(sys.stdout, title)
    with log.open("a", encoding="utf-8", errors="replace") as file:
        file.write(f"\n$ {' '.join(command)}\n")
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=env,
        ) as process:
            shown = _follow(process, line, file)
    line.end("done" if process.returncode == 0 else "failed")
    if process.returncode != 0:
        tail = "\n".join(f"    {text}" for text in telling_lines(shown))
        raise SetupError(f"{title} failed:\n{tail}\nThe whole log: {log}")


def telling_lines(lines: Sequence[str]) -> list[str]:
    """The first errors, which are the cause, and the last lines, which are the result."""
    head, tail = lines[:-_LAST_LINES], lines[-_LAST_LINES:]
    return [*[line for line in head if _ERROR.search(line)][:_ERROR_LINES], *tail]


def _follow(process: subprocess.Popen[str], line: ProgressLine, file: IO[str]) -> list[str]:
    """Copy the output to the file until it ends; returns its lines that are not empty."""
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    seen: list[str] = []
    detail = ""
    try:
        while True:
            line.show(detail)
            try:
                text = lines.get(timeout=0.5)
            except queue.Empty:
                continue  # nothing new: only the clock moves
            if text is None:
                break
            file.write(text)
            if text.strip():
                seen.append(text.rstrip())
            detail = describe(text) or detail
        process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    return seen


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    if process.stdout is not None:
        for text in process.stdout:
            lines.put(text)
    lines.put(None)
