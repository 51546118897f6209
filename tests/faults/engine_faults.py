"""Brings an engine process to a moment of its work, and does something to it there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.data.errors import EngineDiedError, EngineError, StoppedError
from engine.data.events import Finished, PromptProgress
from engine.data.folders import DataFolder
from engine.data.request import LoadRequest
from engine.data.rounds import RoundTrace
from engine.process.client import EngineClient
from engine.process.overseer import Limits
from engine.process.run import Run
from tests.engine.runs import raw, until

QUICK = Limits(stop=1.0, idle=2.5, start=2.5)
"""Short, for tests that wait for a hanging engine; above the second between signs of life."""

MOMENTS = ("start", "load", "calibration", "prefill", "decode", "idle")
LONG_PROMPT = "x" * 3500


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What came of a fault. ended: how what ran ended. seconds: until then, and until the next
    reply after it was complete."""

    moment: str
    fault: str
    ended: str
    ended_seconds: float
    next_seconds: float
    lost_tokens: int


def engine_process() -> psutil.Process:
    """The one that runs below this process, awaited; it need not be ready yet."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        for one in psutil.Process().children():
            if is_engine(one):
                return one
        threading.Event().wait(0.001)
    raise AssertionError("no engine process runs")


def is_engine(process: psutil.Process) -> bool:
    try:
        return any("spawn_main" in part for part in process.cmdline())
    except psutil.Error:
        return False


def kill(process: psutil.Process) -> None:
    os.kill(process.pid, signal.SIGKILL)


def suspend(process: psutil.Process) -> None:
    os.kill(process.pid, signal.SIGSTOP)


def new_client(folder: Path, limits: Limits = QUICK) -> EngineClient:
    return EngineClient(DataFolder(folder), limits)


def end_of(run: Run) -> tuple[str, Finished | None, int]:
    """How it ended, its last event if it has one, and how many tokens were told on the way."""
    told = 0
    try:
        while True:
            event = run.next_event(timeout=60.0)
            if isinstance(event, RoundTrace):
                told += len(event.emitted)
            if isinstance(event, Finished):
                return event.finish, event, told
            assert event is not None or not run.ended
    except EngineError as error:
        return type(error).__name__, None, told


class InBackground:
    """A blocking command of the client, from the first report of its progress on."""

    def __init__(self, act: Callable[[Callable[[object], None]], object]) -> None:
        self.begun = threading.Event()
        self.outcome = "done"
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()

    def _run(self, act: Callable[[Callable[[object], None]], object]) -> None:
        try:
            act(lambda _progress: self.begun.set())
        except EngineError as error:
            self.outcome = type(error).__name__
        finally:
            self.begun.set()

    def wait(self, seconds: float = 60.0) -> str:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the command hangs"
        return self.outcome


def strike(
    client: EngineClient,
    moment: str,
    fault: Callable[[psutil.Process], None],
    model: Path,
    *,
    stop: bool = False,
) -> Aftermath:
    """Brings a loaded client to the moment, does the fault there, presses Stop if asked to, and has
    the next reply written."""
    ended, begun, lost = "nothing ran", time.monotonic(), 0
    if moment == "idle":
        fault(engine_process())
        begun = time.monotonic()
    elif moment in ("prefill", "decode"):
        prompt = LONG_PROMPT if moment == "prefill" else "abc"
        run = client.generate(raw(prompt, 3000, reuse=False))
        first = until(run, PromptProgress if moment == "prefill" else RoundTrace)
        fault(engine_process())
        begun = time.monotonic()
        if stop:
            run.cancel()
        ended, last, told = end_of(run)
        told += len(first.emitted) if isinstance(first, RoundTrace) else 0
        lost = told - len(last.tokens) if last is not None else 0
    else:
        begun, ended = _strike_command(client, moment, fault, model, stop)
    ended_seconds = time.monotonic() - begun
    finish, _, _ = end_of(client.generate(raw("abc", 5)))
    assert finish == "length", f"the next reply ended with {finish}"
    name = fault.__name__ + (", Stop" if stop else "")
    return Aftermath(moment, name, ended, ended_seconds, time.monotonic() - begun, lost)


def _strike_command(
    client: EngineClient,
    moment: str,
    fault: Callable[[psutil.Process], None],
    model: Path,
    stop: bool,
) -> tuple[float, str]:
    if moment == "start":
        client.close()
        command = InBackground(lambda _tell: client.start())
    elif moment == "load":
        before = client.loaded.request.context_length if client.loaded else 0
        request = LoadRequest(str(model), "ngram", context_length=before + 256, threads=1)
        command = InBackground(lambda tell: client.load(request, tell))
        command.begun.wait(60.0)
    else:
        request = LoadRequest(str(model), "ngram", threads=1)
        command = InBackground(lambda tell: client.calibrate(request, tell))
        command.begun.wait(60.0)
    fault(engine_process())
    begun = time.monotonic()
    if stop:
        client.stop_loading()
    return begun, command.wait()


KNOWN_ENDS = {"done", "nothing ran", "cancelled", EngineDiedError.__name__, StoppedError.__name__}
