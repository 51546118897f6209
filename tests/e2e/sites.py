"""A running Forerun for browser tests: the real server in its own process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 240
Stream = int | IO[bytes]


class Site:
    """Starts with `start`; `kill` is what a power cut does, `stop` what Ctrl+C does.

    starts: how often it was started.
    """

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        self.command = list(command)
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        self.process = self._run()
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text())
            try:
                with urllib.request.urlopen(f"{self.url}health", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        self.kill()
        raise TimeoutError(self.log.read_text())

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _run(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return self._popen(subprocess.DEVNULL, log, log)

    def _popen(self, stdin: Stream, stdout: Stream, stderr: Stream) -> subprocess.Popen[bytes]:
        environment = os.environ | {"TZ": "UTC"}
        return subprocess.Popen(
            self.command, cwd=ROOT, stdin=stdin, stdout=stdout, stderr=stderr, env=environment
        )

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=30)
            self.process = None


class FakeSite(Site):
    """With the scripted engine, and a line to it that pages know nothing of."""

    def reset(self) -> None:
        """Everything as at the first start: no conversations, default settings, the first load."""
        assert self.process is not None and self.process.stdin and self.process.stdout
        self.process.stdin.write(b"reset\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if answer != b"reset\n":
            raise RuntimeError(f"answered {answer!r}: {self.log.read_text()}")

    def _run(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return self._popen(subprocess.PIPE, subprocess.PIPE, log)

    def _end(self, how: signal.Signals) -> None:
        process = self.process
        super()._end(how)
        for pipe in (process.stdin, process.stdout) if process else ():
            assert pipe is not None
            pipe.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def fake_site(folder: Path, pace: int) -> FakeSite:
    """The scripted engine; pace in tokens per second."""
    port = free_port()
    module = [sys.executable, "-m", "tests.e2e.fake_server"]
    return FakeSite([*module, str(port), str(folder), str(pace)], port, folder / "site.log")


def real_site(folder: Path) -> Site:
    """The product as the user starts it, with whatever models the folder holds."""
    port = free_port()
    command = [sys.executable, "-m", "app", "--no-browser", "--port", str(port)]
    return Site([*command, "--data-dir", str(folder)], port, folder / "site.log")
