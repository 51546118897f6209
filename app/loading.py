"""Loading models: one load at a time, progress to every page, and what is in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Protocol

from app.preferences import PreferencesFile
from app.session import Sessions
from engine.data.errors import EngineError, RequestError
from engine.data.loaded import LoadedSummary
from engine.data.request import LoadRequest
from engine.process.messages import LoadProgress

_POLL_SECONDS = 0.25
_DIED = "the load ended for a reason that Forerun does not know: the terminal says more"


class Loader(Protocol):
    """The part of `engine.process.client.EngineClient` that loads models."""

    @property
    def loaded(self) -> LoadedSummary | None: ...

    def load(
        self, request: LoadRequest, on_progress: Callable[[LoadProgress], None] | None = None
    ) -> LoadedSummary: ...

    def stop_loading(self) -> None: ...

    def on_lost(self, listener: Callable[[EngineError], None]) -> None: ...


class Loading:
    """`state` is what a page draws of it; every change is broadcast."""

    def __init__(self, engine: Loader, preferences: PreferencesFile, sessions: Sessions) -> None:
        self._engine = engine
        self._preferences = preferences
        self._sessions = sessions
        self._lock = threading.Lock()
        self._busy = False
        self._pair: dict[str, Any] | None = None
        self._loaded_pair: dict[str, Any] | None = None
        self._progress: dict[str, Any] | None = None
        self._error: dict[str, str] | None = None
        self._thread: threading.Thread | None = None
        self._telling = threading.Lock()
        engine.on_lost(self._lost)

    def state(self) -> dict[str, Any]:
        """pair: what was asked for last; loaded_pair: what came of it, as the dropdowns name it."""
        loaded = self._engine.loaded
        return {
            "k": "engine",
            "pair": self._pair,
            "loaded_pair": self._loaded_pair,
            "progress": self._progress,
            "error": self._error,
            "loaded": None if loaded is None else _summary(loaded),
        }

    def memory_in_use(self) -> int:
        """Bytes that the next load gives back."""
        loaded = self._engine.loaded
        return 0 if loaded is None else loaded.memory_bytes

    def start(self, target: str, drafters: tuple[str, ...], waits: bool = False) -> None:
        """Returns at once; what was loaded stays if the new load fails.

        waits: a reply is being written, and the engine does one thing at a time.
        """
        request = self._preferences.current.settings.load_request(target, drafters)
        with self._lock:
            if self._busy:
                raise RequestError("a model is being loaded: wait until it is ready")
            self._busy = True
            self._error = None
            self._pair = {"target": target, "drafters": list(drafters)}
            first = "waits until the reply is complete" if waits else "starting"
            self._progress = {"label": f"Loading {target}: {first}", "fraction": 0.0}
            self._announce()
            self._thread = threading.Thread(
                target=self._load, args=(request, drafters), name="load", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Ends the load that runs, if one does; what was loaded before comes back."""
        if self._busy:
            self._engine.stop_loading()

    def wait(self, timeout: float | None = None) -> None:
        with self._lock:  # a thread that is not running yet cannot be waited for
            thread = self._thread
        if thread is not None:
            thread.join(timeout)

    def wait_or_stop(self, stopped: Callable[[], bool]) -> None:
        """Until the load has ended; stopped: asked often, and ends it."""
        asked = False
        while self._thread is not None and self._thread.is_alive():
            if not asked and stopped():
                asked = True
                self.stop()
            self._thread.join(_POLL_SECONDS)

    def _load(self, request: LoadRequest, drafters: tuple[str, ...]) -> None:
        failure: dict[str, str] | None = {"kind": "EngineError", "message": _DIED}
        try:
            self._engine.load(request, self._on_progress)
            self._loaded_pair = self._pair
            self._preferences.set_models(request.target, drafters)
            failure = None
        except EngineError as error:
            failure = _failure(error)
        except OSError as error:  # loaded, but the choice could not be kept
            message = f"The choice is not kept for the next start: {error.strerror or error}."
            failure = {"kind": "StorageError", "message": message}
        finally:
            self._error = failure
            self._progress = None
            with self._lock:
                self._busy = False
            self._announce()

    def _on_progress(self, progress: LoadProgress) -> None:
        self._progress = {"label": progress.label, "fraction": progress.fraction}
        self._announce()

    def _lost(self, error: EngineError) -> None:
        """What was loaded did not come back in a new engine process."""
        if not self._busy:  # a load that runs tells how it ends
            self._error = _failure(error)
            self._announce()

    def _announce(self) -> None:
        """In order: the last state that pages are told is the newest."""
        with self._telling:
            self._sessions.broadcast(self.state())


def _failure(error: EngineError) -> dict[str, str]:
    return {"kind": type(error).__name__, "message": str(error)}


def _summary(loaded: LoadedSummary) -> dict[str, Any]:
    """For the page. Of the speeds only what was predicted: JSON has no integer keys."""
    summary = asdict(replace(loaded, speed=None))
    return summary | {"predicted": dict(loaded.predicted), "memory_bytes": loaded.memory_bytes}
