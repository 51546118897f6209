"""Loading models: one load at a time, progress to every page, and what is in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from app.chosen import chosen_json
from app.names import Names
from app.preferences import PreferencesFile
from app.session import Sessions
from engine.data.errors import BadOptionError, EngineError, RequestError
from engine.data.loaded import DrafterSummary, LoadedSummary
from engine.data.request import LoadRequest
from engine.drafters.parse import parse_expression
from engine.process.messages import LoadProgress
from engine.process.protocols import Loader

_POLL_SECONDS = 0.25
_DIED = "the load ended for a reason that Forerun does not know: the terminal says more"


class Loading:
    """`state` is what a page draws of it; every change is broadcast, whoever made it: a load, an
    engine that died or came back, a reply that taught how much drafting gains."""

    def __init__(
        self, engine: Loader, preferences: PreferencesFile, sessions: Sessions, names: Names
    ) -> None:
        self._engine = engine
        self._preferences = preferences
        self._sessions = sessions
        self._names = names
        self._lock = threading.Lock()
        self._announcing = threading.Lock()
        self._busy = False
        self._pair: dict[str, Any] | None = None
        self._loaded_pair: dict[str, Any] | None = None
        self._progress: dict[str, Any] | None = None
        self._error: dict[str, str] | None = None
        self._thread: threading.Thread | None = None
        engine.on_change(self._engine_changed)
        engine.on_lost(self._lost)

    def state(self) -> dict[str, Any]:
        """pair: what was asked for last; loaded_pair: what came of it, as the dropdowns name it.

        chosen, loaded_chosen: the drafters of both as the page shows them (app/chosen.py).
        """
        loaded = self._engine.loaded
        return {
            "k": "engine",
            "pair": self._pair,
            "loaded_pair": self._loaded_pair,
            "chosen": _chosen(self._pair),
            "loaded_chosen": _chosen(self._loaded_pair),
            "progress": self._progress,
            "error": self._error,
            "loaded": None if loaded is None else _summary(loaded),
            "names": {} if loaded is None else self._named(loaded),
        }

    @property
    def loaded(self) -> LoadedSummary | None:
        return self._engine.loaded

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

    def _named(self, loaded: LoadedSummary) -> dict[str, str]:
        drafters = [name for one in loaded.drafters for name in _all_names(one)]
        return self._names.table(drafters, [loaded.target.id])

    def _on_progress(self, progress: LoadProgress) -> None:
        self._progress = {"label": progress.label, "fraction": progress.fraction}
        self._announce()

    def _engine_changed(self) -> None:
        """A load that runs tells of it itself: in the middle of one, what is loaded may already be
        new, and the pair that was asked for still the one before."""
        if not self._busy:
            self._announce()

    def _announce(self) -> None:
        """One at a time: the last state that a page hears of must be the latest."""
        with self._announcing:
            self._sessions.broadcast(self.state())

    def _lost(self, error: EngineError) -> None:
        """What was loaded did not come back in a new engine process."""
        if not self._busy:  # a load that runs tells how it ends
            self._error = _failure(error)
            self._announce()


def _failure(error: EngineError) -> dict[str, str]:
    return {"kind": type(error).__name__, "message": str(error)}


def _summary(loaded: LoadedSummary) -> dict[str, Any]:
    """For the page. Of the speeds only what was predicted: JSON has no integer keys.

    kind: of everything that drafts, together; of each drafter, its own.
    """
    drafter = loaded.request.drafter
    return asdict(replace(loaded, speed=None)) | {
        "predicted": dict(loaded.predicted),
        "memory_bytes": loaded.memory_bytes,
        "kind": "" if drafter is None else _kind(drafter),
        "drafters": [_drafter_summary(one) for one in loaded.drafters],
    }


def _drafter_summary(drafter: DrafterSummary) -> dict[str, Any]:
    members = [_drafter_summary(member) for member in drafter.members]
    return asdict(drafter) | {"kind": _kind(drafter.name), "members": members}


def _kind(expression: str) -> str:
    """ "" for a name that is no expression."""
    try:
        return parse_expression(expression).kind
    except BadOptionError:
        return ""


def _all_names(drafter: DrafterSummary) -> list[str]:
    return [drafter.name, *(name for one in drafter.members for name in _all_names(one))]


def _chosen(pair: dict[str, Any] | None) -> list[dict[str, Any]] | None:
    return None if pair is None else chosen_json(pair["drafters"])
