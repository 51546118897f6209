"""Starts the engine process, and reads what it said before it died."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from engine.data.errors import EngineDiedError
from engine.data.folders import DataFolder
from engine.data.shown import shown
from engine.files.disk import has_ended
from engine.process.outlet import Outlet

_OUTPUT = "engine-output-"


def output_file(data_folder: DataFolder) -> Path:
    """Where what the engine process prints goes: one file for each process that has an engine,
    since a command may run beside the page. Called in the engine process as well."""
    interface = multiprocessing.parent_process()
    owner = os.getpid() if interface is None else interface.pid
    return data_folder.logs / f"{_OUTPUT}{owner}.txt"


def _remove_abandoned(data_folder: DataFolder) -> None:
    for file in data_folder.logs.glob(f"{_OUTPUT}*.txt"):
        if has_ended(file.stem.removeprefix(_OUTPUT)):
            file.unlink(missing_ok=True)


def start_process(data_folder: DataFolder) -> tuple[SpawnProcess, Connection]:
    """A new engine process and this side's end of its pipe. EngineDiedError if it cannot start."""
    try:
        data_folder.ensure()
        _remove_abandoned(data_folder)
        output_file(data_folder).write_bytes(b"")  # an earlier engine's last words are not its own
    except OSError as error:
        raise EngineDiedError(
            f"the engine cannot write to {error.filename or data_folder.root} ({error.strerror}); "
            "free some space, or choose another --data-dir"
        ) from error
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    # Only the name is imported here: the worker's module loads llama.cpp.
    process = context.Process(
        target=_run_worker, args=(theirs, data_folder), daemon=True, name="forerun-engine"
    )
    with _interrupts_blocked():
        process.start()
    theirs.close()
    return process, ours


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process started inside is deaf to Ctrl+C until it decides for itself (not on Windows)."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_worker(connection: Connection, data_folder: DataFolder) -> None:
    """Runs in the engine process; the import must not happen in the interface's."""
    # A terminal's Ctrl+C reaches both processes; the interface decides what it means here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outlet = Outlet(connection)
    outlet.show_life()
    from engine.process.worker import run_worker

    run_worker(outlet, data_folder.root, output_file(data_folder))


def exit_reason(exit_code: int | None, data_folder: DataFolder) -> str:
    """One line on why the process ended."""
    try:
        text = output_file(data_folder).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    asserts = (line for line in lines if "GGML_ASSERT" in line or "GGML_ABORT" in line)
    errors = (line for line in reversed(lines) if "rror" in line)
    reason = next(asserts, None) or next(errors, "")
    return shown(reason[-300:]) if reason else f"exit code {exit_code}"
