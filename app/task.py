"""A task of this process, not of a page: one run at a time, and every page is told its state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

from app.session import Sessions
from app.throttle import Throttle
from engine.data.errors import RequestError

_CLOSE_SECONDS = 10.0
_DIED = "it ended for a reason that Forerun does not know: the terminal says more"


@dataclass(frozen=True, slots=True)
class TaskState:
    """state: idle, running, stopping, done, stopped or failed. doing: while it runs."""

    state: str = "idle"
    doing: str = ""
    error: str = ""

    @property
    def is_running(self) -> bool:
        return self.state in ("running", "stopping")


StateT = TypeVar("StateT", bound=TaskState)


class Task(Generic[StateT]):
    """Thread-safe. busy: what is told to whoever asks for something else meanwhile."""

    def __init__(self, name: str, busy: str, idle: StateT, sessions: Sessions) -> None:
        self._name = name
        self._busy = busy
        self._state = idle
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._announce = Throttle(lambda: sessions.broadcast(self.event())).request

    @property
    def state(self) -> StateT:
        return self._state

    def event(self) -> dict[str, Any]:
        """What a page draws of it."""
        return {"k": self._name, **asdict(self._state)}

    def require_idle(self) -> None:
        """RequestError while it runs."""
        if self._state.is_running:
            raise RequestError(self._busy)

    def start(self, first: StateT, run: Callable[[], None]) -> None:
        """Returns at once; RequestError while an earlier one runs. run: changes the state."""
        with self._lock:
            self.require_idle()
            self._state = replace(first, state="running")
            self._stop.clear()
            self._thread = threading.Thread(
                target=self._run, args=(run,), name=self._name, daemon=True
            )
            self._thread.start()
        self._announce()

    def _run(self, run: Callable[[], None]) -> None:
        """Its thread. A run that dies of a fault, which the terminal shows, is over as well."""
        try:
            run()
        finally:
            with self._lock:
                if self._state.is_running:
                    self._state = replace(self._state, state="failed", doing="", error=_DIED)
            self._announce()

    def is_stopped(self) -> bool:
        """Whether the run was told to end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Tells the run to end; what is complete by then is kept and shown."""
        with self._lock:
            if self._state.state == "running":
                self._state = replace(self._state, state="stopping")
                self._stop.set()
        self._announce()

    def change(self, **changes: Any) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)
        self._announce()

    def close(self) -> None:
        self.stop()
        self.wait(_CLOSE_SECONDS)

    def wait(self, timeout: float | None = None) -> None:
        with self._lock:  # a thread that is not running yet cannot be waited for
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
