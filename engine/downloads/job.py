"""One download as the rest of the program sees it: state, speed, cancel."""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from engine.children.json_child import JsonChild
from engine.data.errors import DownloadError, EngineError
from engine.downloads.process import events, open_child, ownership
from engine.downloads.transfer import GO, DownloadEvent, DownloadSpec, error_of, failure
from engine.models.hub_cache import hub_cache

DownloadState = Literal["waiting", "running", "done", "failed", "cancelled"]
FreeSpace = Callable[[Path], int]

SPACE_MARGIN = 200_000_000
_SPEED_SECONDS = 5.0


_BROKEN = failure(DownloadError("the download ended for a reason that Forerun does not know"))
"""Where the thread of a download dies of a fault in Forerun, which the terminal shows."""


@dataclass(frozen=True, slots=True)
class DownloadSnapshot:
    """A download as it is now. total, bytes_per_second: 0 while unknown; seconds_left: None.

    message: the phase while running, the reason after a failure. path: the model, once done.
    error: class name in engine.data.errors of a failure, else "".
    """

    id: str
    name: str
    state: DownloadState = "waiting"
    bytes: int = 0
    total: int = 0
    bytes_per_second: float = 0.0
    seconds_left: float | None = None
    message: str = ""
    path: Path | None = None
    error: str = ""

    @property
    def is_active(self) -> bool:
        return self.state in ("waiting", "running")


@dataclass(frozen=True, slots=True)
class JobHooks:
    """free_space: free bytes at a folder. arrived: called when the file is there, before the state
    says so. changed: called after every change, without a lock held.
    """

    free_space: FreeSpace
    arrived: Callable[[], None]
    changed: Callable[[], None]


class DownloadJob:
    """Runs one spec. `run` blocks; everything else may be called from any thread."""

    def __init__(self, spec: DownloadSpec, name: str, hooks: JobHooks) -> None:
        self.spec = spec
        self._hooks = hooks
        self._lock = threading.Lock()
        self._snapshot = DownloadSnapshot(spec.id, name, total=spec.bytes)
        self._child: JsonChild | None = None
        self._cancelled = False
        self._speed = SpeedMeter()

    def snapshot(self) -> DownloadSnapshot:
        with self._lock:
            return self._snapshot

    def run(self) -> None:
        """Download to the end; the outcome is in the snapshot."""
        with self._lock:
            if self._cancelled:
                return
        outcome = _BROKEN
        try:
            self._set(replace(self._snapshot, state="running", message="connecting"))
            outcome = self._supervise()
            if outcome.event == "done":
                self._hooks.arrived()
        except EngineError as error:
            outcome = failure(error)
        except OSError as error:
            outcome = failure(DownloadError(f"{error.strerror}: {error.filename}"))
        finally:
            self._settle(outcome)

    def cancel(self) -> None:
        """End it. `run` removes what was written so far before it settles on "cancelled"."""
        with self._lock:
            self._cancelled = True
            child = self._child
            waiting = self._snapshot.state == "waiting"
        if waiting:
            self._set(replace(self._snapshot, state="cancelled"))
        if child is not None:
            child.kill()

    def is_present(self, path: Path) -> None:
        """There is nothing to download."""
        self._hooks.arrived()
        self._settle(DownloadEvent("done", total=path.stat().st_size, path=str(path)))

    def clean(self) -> None:
        """Remove partial files of a job that does not run."""
        shutil.rmtree(self.spec.work, ignore_errors=True)
        self._remove_stage()

    def _supervise(self) -> DownloadEvent:
        """Start the child and follow it; returns its last event."""
        work = Path(self.spec.work)
        with ownership(work), open_child("child", work / "child.log") as child:
            with self._lock:
                self._child = child
                if self._cancelled:
                    return DownloadEvent("failed")
            child.send(self.spec.to_line())
            for event in events(child):
                if event.event in ("done", "failed"):
                    return event
                self._take(event, child)
        return DownloadEvent("failed")

    def _take(self, event: DownloadEvent, child: JsonChild) -> None:
        now = self._snapshot
        if event.event == "note":
            self._set(replace(now, message=event.message))
        elif event.event == "size":
            self._check_space(event)
            self._set(replace(now, message="downloading", total=now.total or event.total))
            child.send(GO)
        elif event.event == "checking":
            still = replace(now, bytes_per_second=0.0, seconds_left=None)
            self._set(replace(still, message="checking the file"))
        else:
            speed = self._speed.add(event.bytes)
            left = (event.total - event.bytes) / speed if speed > 0 and event.total else None
            moved = replace(now, bytes=event.bytes, total=event.total)
            self._set(replace(moved, bytes_per_second=speed, seconds_left=left))

    def _check_space(self, event: DownloadEvent) -> None:
        free = self._hooks.free_space(Path(event.path))
        if free < event.total + SPACE_MARGIN:
            raise DownloadError(
                f"{event.total / 1e9:.1f} GB are needed in {event.path}, {free / 1e9:.1f} GB are "
                f"free; free some space and try again"
            )

    def _settle(self, event: DownloadEvent) -> None:
        with self._lock:
            cancelled = self._cancelled
        ended = replace(self._snapshot, message="", bytes_per_second=0.0, seconds_left=None)
        if event.event == "done":
            shutil.rmtree(self.spec.work, ignore_errors=True)
            done = replace(ended, bytes=event.total, total=event.total, path=Path(event.path))
            self._set(replace(done, state="done"))
        elif cancelled:
            self.clean()
            self._set(replace(ended, state="cancelled"))
        else:
            self._remove_stage()
            error = error_of(event)
            failed = replace(ended, message=str(error), error=type(error).__name__)
            self._set(replace(failed, state="failed"))

    def _remove_stage(self) -> None:
        shutil.rmtree(hub_cache() / self.spec.stage, ignore_errors=True)

    def _set(self, snapshot: DownloadSnapshot) -> None:
        """Only one thread writes at a time; the lock is for the readers."""
        with self._lock:
            self._snapshot = snapshot
        self._hooks.changed()


class SpeedMeter:
    """Bytes per second over the last few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, done: int) -> float:
        now = self._clock()
        self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[0][0] > _SPEED_SECONDS:
            self._samples.popleft()
        start, before = self._samples[0]
        return max(done - before, 0) / (now - start) if now > start else 0.0
