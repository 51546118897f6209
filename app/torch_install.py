"""Installing torch from the page: one run at a time, owned by this process and not by a page."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from app.session import Session, Sessions
from app.throttle import Throttle
from engine.children.json_child import ChildPlan, JsonChild
from engine.data.errors import EngineError, RequestError
from engine.train.fitting import require_torch
from engine.train.torch_install import COMMAND

_ROOT = Path(__file__).resolve().parent.parent
_WRITING = "Installing collected packages"
_IDLE_SECONDS = 600.0
"""Longer than pip waits for an index that does not answer, with all its attempts."""


def torch_problem() -> str:
    """Why nothing can be trained, "" if it can."""
    importlib.invalidate_caches()  # it may just have been installed
    try:
        require_torch()
    except EngineError as error:
        return f"{str(error).capitalize()}, then open this again."
    return ""


@dataclass(frozen=True, slots=True)
class Installer:
    """command: installs, and says its progress as JSON lines. problem: as `torch_problem`."""

    command: Sequence[str] = COMMAND
    problem: Callable[[], str] = torch_problem


@dataclass(frozen=True, slots=True)
class InstallState:
    """state: idle, running, failed or done. message: why it failed."""

    state: str = "idle"
    text: str = ""
    done: int = 0
    announced: int = 0
    message: str = ""


class TorchInstall:
    """Thread-safe."""

    def __init__(self, sessions: Sessions, installer: Installer) -> None:
        self._sessions = sessions
        self._installer = installer
        self._lock = threading.Lock()
        self._state = InstallState()
        self._child: JsonChild | None = None
        self._thread: threading.Thread | None = None
        self._cancelled = False
        self._announce_soon = Throttle(self._announce).request

    def table(self) -> dict[str, Callable[[Session, dict[str, Any]], Any]]:
        return {"torch": self._step}

    def state(self) -> dict[str, Any]:
        return {"k": "torch"} | asdict(self._state)

    def problem(self) -> str:
        return self._installer.problem()

    def start(self) -> None:
        """Returns at once; RequestError while one runs, OSError if it cannot start."""
        with self._lock:
            if self._child is not None:
                raise RequestError("torch is being installed already")
            plan = ChildPlan(
                name="install torch",
                command=self._installer.command,
                folder=_ROOT,
                input=False,
                idle=_IDLE_SECONDS,
            )
            self._child = child = JsonChild(plan)
            self._cancelled = False
            self._state = InstallState("running")
            self._thread = threading.Thread(
                target=self._follow, args=(child,), name="install-torch", daemon=True
            )
            self._thread.start()
        self._announce()

    def cancel(self) -> None:
        """pip and all it has started ends. RequestError once it writes what it has downloaded: half
        a package would look like a whole one."""
        if self._state.text.startswith(_WRITING):
            raise RequestError("pip is writing the files already: wait until it has ended")
        self._end()

    def close(self) -> None:
        self._end()
        self.wait()

    def _end(self) -> None:
        with self._lock:
            child, self._cancelled = self._child, True
        if child is not None:
            child.kill()

    def wait(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def _step(self, _session: Session, arguments: dict[str, Any]) -> None:
        if arguments["step"] == "install":
            self.start()
        else:
            self.cancel()

    def _follow(self, child: JsonChild) -> None:
        """Whatever ends the following, a new one can be started."""
        ended = InstallState("failed", message="it could not be followed: see the terminal")
        try:
            for message in child.messages():
                self._progressed(message)
            code, reason = child.wait(), child.exit_reason()
            ended = self._ended(code, reason)
        finally:
            child.close()
            with self._lock:
                self._state, self._child = ended, None
            self._announce()

    def _ended(self, code: int, reason: str) -> InstallState:
        if self._cancelled:
            return InstallState()
        if code:
            return InstallState("failed", message=reason)
        problem = self.problem()
        return InstallState("failed", message=problem) if problem else InstallState("done")

    def _progressed(self, message: dict[str, Any]) -> None:
        text, done, announced = (message.get(name) for name in ("text", "done", "announced"))
        if type(text) is not str or type(done) is not int or type(announced) is not int:
            return
        with self._lock:
            self._state = replace(self._state, text=text, done=done, announced=announced)
        self._announce_soon()

    def _announce(self) -> None:
        self._sessions.broadcast(self.state())
