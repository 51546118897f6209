"""One reply as its consumer sees it: events in order, or the error that ended it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator

from engine.data.errors import EngineError
from engine.data.events import Finished, RunEvent
from engine.data.request import GenerateRequest
from engine.process.so_far import ReplySoFar


class Run:
    """Made by EngineClient.generate. One consumer; cancel and answer_now: from any thread."""

    def __init__(
        self,
        identity: int,
        request: GenerateRequest,
        on_cancel: Callable[[], None],
        on_answer_now: Callable[[], None],
    ) -> None:
        self.id = identity
        self._on_cancel = on_cancel
        self._on_answer_now = on_answer_now
        self._so_far = ReplySoFar(request)
        self._events: queue.SimpleQueue[RunEvent | EngineError] = queue.SimpleQueue()
        self._ended = False

    def next_event(self, timeout: float | None = None) -> RunEvent | None:
        """The next event, None when `timeout` seconds passed or the run has ended.

        Raises the EngineError that ended the run.
        """
        if self._ended:
            return None
        try:
            event = self._events.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(event, EngineError):
            self._ended = True
            raise event
        self._ended = isinstance(event, Finished)
        return event

    def events(self) -> Iterator[RunEvent]:
        """All events, the last one is Finished."""
        while (event := self.next_event()) is not None:
            yield event

    @property
    def ended(self) -> bool:
        return self._ended

    def cancel(self) -> None:
        """Asks the engine to stop. Finished(finish="cancelled") follows within one round, or within
        some seconds, where the engine does not answer and is ended."""
        self._on_cancel()

    def answer_now(self) -> None:
        """Asks for the end of the thought, and for the answer; any thread, any time. Nothing
        happens to a reply that does not think, or not any more."""
        self._on_answer_now()

    def push(self, event: RunEvent | EngineError) -> None:
        """For the client only."""
        if not isinstance(event, EngineError):
            self._so_far.add(event)
        self._events.put(event)

    def push_cancelled(self) -> None:
        """For the client only: the end of a stopped run that the engine does not tell."""
        self._events.put(self._so_far.cancelled())
