"""The thread of the engine process that counts tokens, so that no reply waits for a count."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

from engine.data.errors import EngineError, StoppedError, StopRequested
from engine.data.prompt_size import PromptSize
from engine.data.request import GenerateRequest
from engine.process.messages import Count, Counted, EngineMessage, NotCounted

_NICENESS = 10
Size = Callable[[GenerateRequest, tuple[str, ...]], PromptSize]


class Counter:
    """Answers one question at a time, in their order."""

    def __init__(self, size: Size, send: Callable[[EngineMessage], None]) -> None:
        self._size = size
        self._send = send
        self._questions: SimpleQueue[Count] = SimpleQueue()

    def start(self) -> None:
        threading.Thread(target=self._serve, name="counter", daemon=True).start()

    def ask(self, question: Count) -> None:
        self._questions.put(question)

    def _serve(self) -> None:
        _give_way()
        while True:
            question = self._questions.get()
            try:
                size = self._size(question.request, question.texts)
            except StopRequested:
                self._fail(question, StoppedError("another model is being loaded"))
            except EngineError as error:
                self._fail(question, error)
            else:
                self._send(Counted(question.id, size))

    def _fail(self, question: Count, error: EngineError) -> None:
        self._send(NotCounted(question.id, type(error).__name__, str(error)))


def _give_way() -> None:
    """To the threads of a reply. Linux has a priority for each thread, others only for all."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
