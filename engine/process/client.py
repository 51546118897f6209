"""The interface's side of the engine process: what may be asked of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.data.errors import EngineDiedError, EngineError
from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from engine.data.log_line import LogLine
from engine.data.prompt_size import PromptSize
from engine.data.request import GenerateRequest, LoadRequest
from engine.process.keeper import Keeper
from engine.process.messages import (
    Calibrate,
    Command,
    Count,
    Generate,
    Load,
    MakeModel,
    Ready,
    SearchLayers,
    Unload,
)
from engine.process.overseer import Limits
from engine.process.protocols import ChangeListener
from engine.process.run import Run
from engine.process.waiting import Pending, ProgressCallback
from engine.skip.report import SkipReport, SkipSearchRequest


class EngineClient:
    """Thread-safe. Commands are served in order; an engine that dies or hangs is replaced.

    What it had begun ends with it, what waited behind goes on in the next one.
    """

    def __init__(self, data_folder: DataFolder, limits: Limits | None = None) -> None:
        self._keeper = Keeper(data_folder, limits)

    # Commands

    def start(self) -> Ready:
        """Starts the engine process if none runs, and waits until it takes commands.

        EngineDiedError when it cannot start; one that was slow is replaced once.
        """
        engine = self._keeper.running()
        try:
            return engine.ready()
        except EngineDiedError:
            if not engine.was_slow_to_start:
                raise
        return self._keeper.running().ready()

    def load(
        self, request: LoadRequest, on_progress: ProgressCallback | None = None
    ) -> LoadedSummary:
        """Blocks until loaded. Raises the EngineError; what was loaded before then stays.

        on_progress is called in the caller's thread.
        """
        return self._bring(lambda identity: Load(identity, request), on_progress)

    def calibrate(
        self, request: LoadRequest, on_progress: ProgressCallback | None = None
    ) -> LoadedSummary:
        """Like load, after measuring for half a minute or more which setup is fastest here."""
        return self._bring(lambda identity: Calibrate(identity, request), on_progress)

    def _bring(
        self, command: Callable[[int], Command], on_progress: ProgressCallback | None
    ) -> LoadedSummary:
        with self._keeper.lock:
            self._keeper.send_reload()
            waiter = self._keeper.submit(command)
        waiter.wait(on_progress)
        if waiter.loaded is None:
            raise EngineDiedError("the engine reported no loaded model")
        return waiter.loaded

    def stop_loading(self) -> None:
        """Loads and calibrations end with StoppedError; what was loaded before then stays."""
        with self._keeper.lock:
            for pending in self._keeper.pending():
                if pending.waiter is not None and isinstance(pending.command, Load | Calibrate):
                    self._keeper.cancel(pending.identity)

    def unload(self) -> None:
        with self._keeper.lock:
            self._keeper.forget_loaded()
            waiter = self._keeper.submit(Unload)
        waiter.wait()

    def generate(self, request: GenerateRequest) -> Run:
        """Returns at once; other runs come first, their number is told by Queued events."""
        with self._keeper.lock:
            identity = self._keeper.new_number()
            self._keeper.send_reload(identity)
            run = Run(
                identity,
                request,
                lambda: self._keeper.cancel(identity),
                lambda: self._keeper.answer_now(identity),
            )
            self._keeper.hand_over(Pending(identity, Generate(identity, request), run=run))
            return run

    def count(self, request: GenerateRequest, texts: tuple[str, ...] = ()) -> PromptSize:
        """How much of the context the request's prompt would take; also while a reply is written.

        Raises the EngineError: RequestError where nothing is loaded, or the template's refusal.
        """
        return self._keeper.ask_beside(lambda number: Count(number, request, texts)).wait()

    def make_model(
        self,
        source: str,
        *,
        skip: tuple[int, ...] | None = None,
        file_format: str | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> Path:
        """A copy without layers (skip; () chooses them) or in another weight format."""
        waiter = self._keeper.submit(lambda number: MakeModel(number, source, skip, file_format))
        waiter.wait(on_progress)
        if waiter.made is None:
            raise EngineDiedError("the engine reported no file")
        return waiter.made

    def search_layers(
        self, request: SkipSearchRequest, on_progress: ProgressCallback | None = None
    ) -> SkipReport:
        """Layers that a drafter can do without; Ctrl+C ends it with the best so far."""
        waiter = self._keeper.submit(lambda number: SearchLayers(number, request))
        try:
            waiter.wait(on_progress)
        except KeyboardInterrupt:
            self._keeper.cancel(waiter.identity)
            waiter.wait(on_progress)
        if waiter.found is None:
            raise EngineDiedError("the engine reported no layers")
        return waiter.found

    def on_lost(self, listener: Callable[[EngineError], None]) -> None:
        """Called with the reason when what was loaded does not come back after the engine died,
        from a thread that must not wait."""
        self._keeper.on_lost = listener

    def close(self) -> None:
        """Stops runs and the engine process; closing twice is safe."""
        self._keeper.close()

    # State

    @property
    def loaded(self) -> LoadedSummary | None:
        """What is in memory, or comes back with the next command after the engine died."""
        return self._keeper.loaded

    def on_change(self, listener: ChangeListener) -> None:
        """The listener is called, from any thread, after every change of what is loaded and of the
        process: a death, a reload, an unload, what a reply taught of the speed-up."""
        self._keeper.on_change(listener)

    @property
    def pid(self) -> int | None:
        return self._keeper.pid

    @property
    def pending(self) -> tuple[int, ...]:
        """Numbers of the commands that have not ended, the one being served first."""
        return tuple(one.identity for one in self._keeper.pending())

    def log_lines(self, after: int = 0) -> tuple[LogLine, ...]:
        """Native log lines with a number above `after`, oldest first."""
        return self._keeper.log_lines(after)
