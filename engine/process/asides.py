"""Questions that the engine answers beside its commands, not in their turn."""

from __future__ import annotations

import queue
import threading
from queue import SimpleQueue

from engine.data.errors import ERROR_KINDS, EngineError, RunError
from engine.data.prompt_size import PromptSize
from engine.process.messages import Counted, NotCounted

_LONGEST_WAIT = 30.0
"""Seconds: what takes longer is of no use to whoever is typing."""


class Aside:
    """One question. Its answer is awaited by one thread."""

    def __init__(self) -> None:
        self._answer: SimpleQueue[PromptSize | EngineError] = SimpleQueue()

    def put(self, answer: PromptSize | EngineError) -> None:
        self._answer.put(answer)

    def wait(self) -> PromptSize:
        try:
            answer = self._answer.get(timeout=_LONGEST_WAIT)
        except queue.Empty:
            raise RunError("the tokens could not be counted in time; try again") from None
        if isinstance(answer, EngineError):
            raise answer
        return answer


class Asides:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Aside] = {}

    def add(self, identity: int) -> Aside:
        with self._lock:
            aside = self._open[identity] = Aside()
            return aside

    def take(self, message: Counted | NotCounted) -> None:
        with self._lock:
            aside = self._open.pop(message.id, None)
        if aside is None:
            return
        if isinstance(message, Counted):
            aside.put(message.size)
        else:
            aside.put(ERROR_KINDS.get(message.kind, EngineError)(message.message))

    def give_up(self, error: EngineError) -> None:
        """The engine is gone: no answer comes."""
        with self._lock:
            left = list(self._open.values())
            self._open.clear()
        for aside in left:
            aside.put(error)
