"""Ends a process with everything it has started."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import psutil

TERMINATE_SECONDS = 0.5
"""What an orderly end may take before it is forced: longer, and whoever pressed Stop notices."""
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.01


def end_tree(pid: int, terminate_seconds: float = TERMINATE_SECONDS) -> None:
    """Asks all of them to end, then forces it; may be called from any thread, twice.

    A stopped process does not hear that it is asked, so it is forced. Whoever started a process
    still has to wait for it: its exit code is not taken away here.
    """
    try:
        process = psutil.Process(pid)
        tree = [*process.children(recursive=True), process]
    except psutil.NoSuchProcess:
        return
    if terminate_seconds > 0.0:
        _each(tree, psutil.Process.terminate)
        _await_end(tree, terminate_seconds)
    _each(tree, psutil.Process.kill)
    _await_end(tree, _KILL_SECONDS)


def has_ended(process: psutil.Process) -> bool:
    """Also where nobody has waited for it yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _each(processes: Sequence[psutil.Process], act: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        try:
            act(process)
        except psutil.NoSuchProcess:
            continue


def _await_end(processes: Sequence[psutil.Process], seconds: float) -> None:
    deadline, never = time.monotonic() + seconds, threading.Event()
    while not all(map(has_ended, processes)) and time.monotonic() < deadline:
        never.wait(_POLL_SECONDS)
