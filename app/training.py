"""Training of heads: one at a time, owned by this process and not by a page.

What is known of it is in a file as well, so that it can be taken up again after a restart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from app.session import Sessions
from app.throttle import Throttle
from app.training_child import COMMAND, TrainingChild, end_left_over, is_running
from app.training_request import TrainingRequest, require_texts, training_request
from engine.data.errors import RequestError
from engine.data.folders import DataFolder
from engine.files.stored import read_stored, write_stored
from engine.train.told import card_of, is_progress

_LOG = logging.getLogger(__name__)
RUNNING = ("running", "stopping")
_STATES = (*RUNNING, "done", "failed", "stopped", "interrupted")
_MOST_POINTS = 240


@dataclass(frozen=True, slots=True)
class Job:
    """state: running, stopping, done, failed, stopped (kept nothing) or interrupted.

    progress: the last progress object of the command. points: (seconds, held-out hit rate by
    position), as training went on. card: of the result.
    """

    request: TrainingRequest
    state: str = "running"
    pid: int = 0
    progress: dict[str, Any] = field(default_factory=dict)
    points: tuple[tuple[float, tuple[float, ...]], ...] = ()
    message: str = ""
    card: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"drafter": self.request.drafter}


class Training:
    """Thread-safe. command: what is called with the arguments of `forerun train`.

    problem: what was wrong with the file at the start, "" for nothing.
    """

    def __init__(
        self, folder: DataFolder, sessions: Sessions, command: Sequence[str] = COMMAND
    ) -> None:
        self._folder = folder.training
        self._data_dir = folder.root
        self._command = tuple(command)
        self._sessions = sessions
        self._lock = threading.Lock()
        self._child: TrainingChild | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._announce_soon = Throttle(self.announce).request
        self.problem = ""
        self._job = self._left_over()

    @property
    def job(self) -> Job | None:
        return self._job

    def state(self) -> dict[str, Any]:
        job = self._job
        return {"k": "training", "job": None if job is None else job.to_json()}

    def announce(self) -> None:
        self._sessions.broadcast(self.state())

    def require_idle(self) -> None:
        """RequestError while a training runs."""
        if self._job is not None and self._job.state in RUNNING:
            raise RequestError("a training is running: stop it, or wait until it ends")

    # What the user asks for

    def start(self, request: TrainingRequest, resume: bool = False) -> None:
        """Returns at once; RequestError if it cannot be, OSError if its folder cannot be made."""
        require_texts(request)
        with self._lock:
            self.require_idle()
            self._folder.mkdir(parents=True, exist_ok=True)
            command = [*self._command, "--data-dir", str(self._data_dir)]
            command += request.arguments(resume)
            child = TrainingChild(command, self._folder / "train-errors.txt")
            self._child = child
            points = self._job.points if resume and self._job is not None else ()
            self._job = Job(request, pid=child.pid, points=points)
            self._thread = threading.Thread(
                target=self._follow, args=(child,), name="training", daemon=True
            )
        self._save()
        self._thread.start()
        self.announce()

    def resume(self) -> None:
        job = self._job
        if job is None:
            raise RequestError("there is no training to go on with")
        self.start(job.request, resume=True)

    def stop(self) -> None:
        """Ends it and keeps the best so far; asked again, ends it at once."""
        with self._lock:
            job, child = self._job, self._child
            if job is None or child is None or job.state not in RUNNING:
                return
            again = job.state == "stopping"
            self._job = replace(job, state="stopping")
        if again:
            child.end()
        else:
            child.interrupt()
        self.announce()

    def dismiss(self) -> None:
        """Takes an ended training off the page; what it made stays."""
        with self._lock:
            self.require_idle()
            self._job = None
            self._file.unlink(missing_ok=True)
        self.announce()

    def close(self) -> None:
        """What runs is ended, and can be resumed."""
        self._closing = True
        if self._child is not None:
            self._child.end()
        if self._thread is not None:
            self._thread.join()

    def wait(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    # Following the process

    def _follow(self, child: TrainingChild) -> None:
        """Whatever ends the following, the job does not go on without a thread."""
        card, code, reason = None, 0, "Forerun could not follow it: see the terminal"
        try:
            for message in child.messages():
                card = card_of(message) or card
                if is_progress(message):
                    self._progressed(message)
            code, reason = child.outcome()
        finally:
            with self._lock:
                self._child = None
                if self._job is not None:
                    self._job = self._ended(self._job, code, card, reason)
            self._save()
            self.announce()

    def _ended(self, job: Job, code: int, card: Any, reason: str) -> Job:
        if card is not None:
            return replace(job, state="done", card=card, message="")
        if self._closing:
            return replace(job, state="interrupted", message="Forerun was closed")
        if job.state == "stopping":
            return replace(job, state="stopped", message="stopped before there was a result")
        return replace(job, state="failed", message=reason or f"it ended with code {code}")

    def _progressed(self, message: dict[str, Any]) -> None:
        with self._lock:
            job = self._job
            if job is None:
                return
            points = _with_point(job.points, message)
            told = points != job.points or message.get("stage") != job.progress.get("stage")
            self._job = replace(job, progress=message, points=points)
        if told:
            self._save()
        self._announce_soon()

    # The file

    @property
    def _file(self) -> Path:
        return self._folder / "job.json"

    def _save(self) -> None:
        job = self._job
        if job is None:
            return
        try:
            write_stored(self._file, job.to_json(), indent=None)
        except OSError as error:
            # The training goes on: what is known of it is here, and only a restart would miss it.
            _LOG.warning("%s cannot be written: %s", self._file, error.strerror or error)

    def _left_over(self) -> Job | None:
        """Of an earlier run of Forerun. What still runs without anyone listening is ended."""
        stored = read_stored(self._file, _job, None)
        self.problem, job = stored.problem, stored.content
        if job is None or job.state not in RUNNING:
            return job
        if is_running(job.pid, self._file.stat().st_mtime, str(self._data_dir)):
            end_left_over(job.pid)
        return replace(job, state="interrupted", message="Forerun ended in the middle of it")


def _with_point(
    points: tuple[tuple[float, tuple[float, ...]], ...], message: dict[str, Any]
) -> tuple[tuple[float, tuple[float, ...]], ...]:
    """Every second one goes when there are too many to draw."""
    heldout = message.get("heldout")
    if not heldout or message.get("stage") != "training":
        return points
    rates = tuple(float(rate) for rate in heldout)
    if points and points[-1][1] == rates:
        return points
    kept = points[::2] if len(points) >= _MOST_POINTS else points
    return (*kept, (float(message.get("seconds") or 0.0), rates))


def _job(data: Any) -> Job | None:
    state, pid, card = data["state"], data["pid"], data["card"]
    if state not in _STATES or not isinstance(card, dict | None) or not 0 <= pid < 2**31:
        raise ValueError("it describes no training")
    return Job(
        request=training_request(data["request"]),
        state=state,
        pid=int(pid),
        progress=dict(data["progress"]),
        points=tuple((float(at), tuple(map(float, rates))) for at, rates in data["points"]),
        message=str(data["message"]),
        card=card,
    )
