"""The process in which chat templates are rendered, as its owner has it.

What holds where: the time limit everywhere (the child is killed); the memory limit on Linux by the
system itself, elsewhere by looking at the child's memory every few hundredths of a second, which a
single huge allocation can outrun for that long.
"""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.errors import TemplateError
from engine.data.machine import resident_bytes

_ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 30.0
_LOOK_SECONDS = 0.03
_NO_WINDOW: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # Windows

Answer = dict[str, Any]

_LOG = logging.getLogger(__name__)


class RenderStopped(Exception):  # noqa: N818 - not an error: the caller wanted it
    """The caller asked for an end before the prompt was there."""


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Of one rendering. memory: of its process altogether, in bytes; longest: in characters."""

    seconds: float = 5.0
    memory: int = 512 << 20
    longest: int = 8_000_000


def never() -> bool:
    return False


class RenderProcess:
    """Starts with the first request, starts again after it was killed; ends with its owner.

    It also ends when the owner is no longer referred to, and when this process ends in any way.
    """

    def __init__(
        self,
        limits: RenderLimits | None = None,
        memory_of: Callable[[int], int | None] = resident_bytes,
    ) -> None:
        """memory_of: bytes that a process has; None when it has ended."""
        self._limits = limits or RenderLimits()
        self._memory_of = memory_of
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._end_child: Callable[[], object] = never

    @property
    def pid(self) -> int | None:
        """None while none runs."""
        return self._child.process.pid if self._child is not None else None

    def ask(self, request: Mapping[str, Any], cancelled: Callable[[], bool] = never) -> Answer:
        """What the child answers. TemplateError when it has to be ended, or ends by itself."""
        with self._lock:
            child = self._started(cancelled)
            child.ask(request)
            seconds = self._limits.seconds
            late = (
                f"the model's chat template was stopped after {seconds:g} s; choose another model"
            )
            return self._await(child, _Deadline(seconds, late), cancelled)

    def close(self) -> None:
        """Ends the process; closing twice is safe."""
        with self._lock:
            self._end()

    def _started(self, cancelled: Callable[[], bool]) -> _Child:
        if self._child is None or self._child.process.poll() is not None:
            self._end()
            try:
                self._child = _Child(self._limits)
            except OSError as error:
                raise TemplateError(
                    f"the process that reads chat templates does not start: {error.strerror}"
                ) from error
            self._end_child = weakref.finalize(self, self._child.end)
            late = "the process that reads chat templates does not start; try again"
            self._await(self._child, _Deadline(_START_SECONDS, late), cancelled)
        return self._child

    def _await(self, child: _Child, deadline: _Deadline, cancelled: Callable[[], bool]) -> Answer:
        while True:
            try:
                answer = child.answers.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._check(child, deadline, cancelled)
                continue
            if answer is None:
                code = child.process.wait()
                self._end()
                raise TemplateError(
                    f"the model's chat template ended the process that reads it (code {code});"
                    " choose another model"
                )
            return answer

    def _check(self, child: _Child, deadline: _Deadline, cancelled: Callable[[], bool]) -> None:
        if cancelled():
            self._end()
            raise RenderStopped
        if time.monotonic() > deadline.end:
            self._end()
            raise TemplateError(deadline.late)
        if (self._memory_of(child.process.pid) or 0) > self._limits.memory:
            self._end()
            raise TemplateError(
                "the model's chat template was stopped: it takes too much memory;"
                " choose another model"
            )

    def _end(self) -> None:
        self._end_child()
        self._child = None


class _Deadline:
    """late: what is said when it has passed."""

    def __init__(self, seconds: float, late: str) -> None:
        self.end = time.monotonic() + seconds
        self.late = late


class _Child:
    """One child, and the thread that speaks with it, so that nobody else ever waits for a pipe.

    answers: None when the child has ended.
    """

    def __init__(self, limits: RenderLimits) -> None:
        numbers = (limits.memory, limits.seconds, limits.longest)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine.text.render_child", *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            cwd=_ROOT,
            # Ctrl-C in a terminal is the parent's to handle.
            start_new_session=sys.platform != "win32",
            creationflags=_NO_WINDOW,
        )
        self.answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._speaker = threading.Thread(target=self._speak, daemon=True)
        self._speaker.start()

    def ask(self, request: Mapping[str, Any]) -> None:
        self._requests.put(json.dumps(request))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._requests.put(None)
        self._speaker.join()

    def _speak(self) -> None:
        """Reads one answer (the first says that it is ready), then writes the next request."""
        sending, receiving = self.process.stdin, self.process.stdout
        if sending is None or receiving is None:
            raise ValueError("the process has no pipes")
        with receiving:
            while (line := receiving.readline()).endswith("\n"):
                answer = _parsed(line)
                if answer is None:
                    continue  # what a start-up script of this Python prints
                self.answers.put(answer)
                request = self._requests.get()
                if request is None:
                    break
                try:
                    sending.write(request + "\n")
                    sending.flush()
                except OSError:
                    break  # it has ended
        self.answers.put(None)
        try:
            sending.close()
        except OSError:
            return  # what was not written yet is of no use to anyone


def _parsed(line: str) -> Answer | None:
    """None for what is no answer, which the log keeps."""
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    _LOG.warning("the process that renders templates wrote what is no answer: %r", line[:200])
    return None
