"""Installs torch in a child process: python -m engine.train.torch_install. Progress as JSON lines.

pip does it, with the user's own settings (index, proxy, certificates). It is told to keep its
temporary files in a folder of ours: what has come of a download can only be seen there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from engine.children.speaking import claim_stdout
from engine.data.shown import shown
from engine.downloads.wheel_fetch import pip_problem
from engine.files.disk import tree_bytes
from engine.train.fitting import TORCH

COMMAND = (sys.executable, "-m", "engine.train.torch_install")
PIP = (
    *(sys.executable, "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check"),
    *("--no-input", "--progress-bar", "off", TORCH),
)
_DOWNLOADING = re.compile(r"Downloading .*\((?P<size>[\d.]+) (?P<unit>bytes|kB|MB|GB)\)")
_UNITS = {"bytes": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_LOOK_SECONDS = 0.5
_LONGEST = 200
_LAST_LINES = 100


@dataclass(frozen=True, slots=True)
class InstallProgress:
    """text: pip's last line. done, announced: bytes that have come, of the files it has named."""

    text: str = ""
    done: int = 0
    announced: int = 0


class _Follower:
    """pip's lines, and the size of its folder while it downloads."""

    def __init__(self, output: TextIO, folder: Path) -> None:
        self._output = output
        self._folder = folder
        self._lock = threading.Lock()
        self._now = InstallProgress()
        self.last: deque[str] = deque(maxlen=_LAST_LINES)

    def line(self, text: str) -> None:
        line = shown(text.strip(), _LONGEST)
        if not line:
            return
        self.last.append(line)
        self._tell(line, announced_bytes(line))

    def look(self) -> None:
        self._tell(self._now.text, 0)

    def _tell(self, text: str, announced: int) -> None:
        with self._lock:
            self._now = InstallProgress(
                text,
                max(self._now.done, tree_bytes(self._folder)),
                self._now.announced + announced,
            )
            self._output.write(json.dumps(asdict(self._now)) + "\n")
            self._output.flush()


def announced_bytes(line: str) -> int:
    """Of the file that pip says it downloads, 0 where the line says nothing of that."""
    found = _DOWNLOADING.search(line)
    return int(float(found["size"]) * _UNITS[found["unit"]]) if found else 0


def install(command: Sequence[str], output: TextIO) -> str:
    """Runs pip to its end; why it failed, "" if it did not."""
    with tempfile.TemporaryDirectory(prefix="torch-", ignore_cleanup_errors=True) as name:
        follower, over = _Follower(output, Path(name)), threading.Event()
        with subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=os.environ | {"TMPDIR": name, "TEMP": name, "TMP": name},
        ) as pip:
            looking = threading.Thread(target=_look, args=(follower, over), daemon=True)
            looking.start()
            for line in pip.stdout or ():
                follower.line(line)
            code = pip.wait()
        over.set()
        looking.join()
        return pip_problem("\n".join(follower.last), TORCH) if code else ""


def _look(follower: _Follower, over: threading.Event) -> None:
    while not over.wait(_LOOK_SECONDS):
        follower.look()


def main() -> int:
    problem = install(PIP, claim_stdout())
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    raise SystemExit(main())
