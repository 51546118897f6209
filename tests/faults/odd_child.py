"""A child process that misbehaves as its one argument says; `python -m tests.faults.odd_child HOW`.

Its last word, where it has one, is {"done": true}.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

OUT = sys.stdout.buffer


def say(*lines: bytes) -> None:
    for line in lines:
        OUT.write(line)
    OUT.flush()


def done() -> None:
    say(json.dumps({"done": True}).encode() + b"\n")


def garbage() -> None:
    """Every kind of line that is no message, between two that are."""
    say(b'{"first": 1}\n')
    say(b"a library's words\n", b"\n", b"{half\n", b"[1, 2]\n", b"7\n", b"null\n", b'"text"\n')
    say(b"\xff\xfe\x00\n", b'{"x": "\xff"\n', b"\x00" * 100 + b"\n", b"[" * 100_000 + b"\n")
    say(b"1" * 10_000 + b"\n", b"x" * 10_000_000 + b"\n", b'{"y": "' + b"z" * 10_000_000 + b'"}\n')
    done()


def half_line() -> None:
    say(b'{"first": 1}\n', b'{"done": tr')


def death() -> None:
    say(b'{"first": 1}\n')
    print("it died of thirst", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    say(b'{"first": 1}\n')
    threading.Event().wait()


def suspension() -> None:
    say(b'{"first": 1}\n')
    os.kill(os.getpid(), signal.SIGSTOP)


def orphan() -> None:
    """What it started holds its pipe open."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    say(b'{"first": 1}\n')


def work() -> None:
    """Longer than others are given that do nothing."""
    number, ended = 0, threading.Event()
    threading.Timer(float(sys.argv[2]), ended.set).start()
    while not ended.is_set():
        number += 1
    done()


def nothing() -> None:
    pass


WAYS: dict[str, Callable[[], None]] = {
    "garbage": garbage, "half": half_line, "death": death, "hang": hang, "work": work,
    "suspension": suspension, "orphan": orphan, "nothing": nothing,
}  # fmt: skip

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
