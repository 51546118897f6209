"""The parts of the engine's client that its users need, each as narrow as its user.

`engine.process.client.EngineClient` has all of them, `engine.process.run.Run` is the RunHandle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine.data.errors import EngineError
from engine.data.events import RunEvent
from engine.data.loaded import LoadedSummary
from engine.data.log_line import LogLine
from engine.data.prompt_size import PromptSize
from engine.data.request import GenerateRequest, LoadRequest
from engine.process.messages import LoadProgress

ChangeListener = Callable[[], None]
"""Told that something is different, not what: whoever hears it looks for itself."""


class RunHandle(Protocol):
    """A reply being written."""

    def next_event(self, timeout: float | None = None) -> RunEvent | None: ...

    def cancel(self) -> None: ...

    def answer_now(self) -> None: ...


class ModelHolder(Protocol):
    """Has models in memory, or will have them again."""

    @property
    def loaded(self) -> LoadedSummary | None: ...

    def on_change(self, listener: ChangeListener) -> None:
        """The listener is called after every change of what is loaded and of the process behind it,
        from any thread, with no lock held; two calls may come at once."""
        ...


class Generator(ModelHolder, Protocol):
    """Writes replies."""

    def generate(self, request: GenerateRequest) -> RunHandle: ...


class TokenCounter(ModelHolder, Protocol):
    """Knows how much of the context a prompt takes."""

    def count(self, request: GenerateRequest, texts: tuple[str, ...] = ()) -> PromptSize: ...


class Loader(ModelHolder, Protocol):
    """Loads models."""

    def load(
        self, request: LoadRequest, on_progress: Callable[[LoadProgress], None] | None = None
    ) -> LoadedSummary: ...

    def stop_loading(self) -> None: ...

    def on_lost(self, listener: Callable[[EngineError], None]) -> None:
        """The listener is told why what was loaded did not come back in a new engine process."""
        ...


class LogSource(Protocol):
    """Has the lines that native code logs."""

    def log_lines(self, after: int = 0) -> tuple[LogLine, ...]: ...
