"""The parent's side of a download's child process: start it, talk to it, end it, clean up."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import psutil

from engine.data.errors import DownloadError
from engine.data.folders import DataFolder
from engine.downloads.transfer import DownloadEvent
from engine.files.disk import has_ended
from engine.models.hub_cache import hub_cache

STAGE_PREFIX = ".forerun-"
_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
_KILL_SECONDS = 5.0
_CHILD_ENVIRONMENT = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_SHARED_BLOBS": "1",  # a staged file must be a file, not a link out of the stage
    "HF_HUB_DISABLE_SYMLINKS_WARNING": "1",
    "PYTHONUTF8": "1",
}


def work_folder(data_folder: DataFolder, id_: str) -> Path:
    return data_folder.downloads / _safe(id_)


def stage_name(id_: str) -> str:
    """Carries the process id, so that what a crash left behind can be told from a running one."""
    return f"{STAGE_PREFIX}{os.getpid()}-{_safe(id_)}"


def remove_stale_stages() -> None:
    """Delete what downloads of processes that no longer exist left in the Hub's cache."""
    for stage in hub_cache().glob(f"{STAGE_PREFIX}*"):
        owner = stage.name.removeprefix(STAGE_PREFIX).partition("-")[0]
        if has_ended(owner):
            shutil.rmtree(stage, ignore_errors=True)


class ChildProcess:
    """`python -m engine.downloads.MODULE`, JSON lines both ways; its tree ends with the block."""

    def __init__(self, module: str, log: Path) -> None:
        with log.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"engine.downloads.{module}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                env=_environment(),
                start_new_session=True,  # Ctrl-C in a terminal is the parent's to handle
            )

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def send(self, line: str) -> None:
        """A child that has already ended is no error here: its last event tells why."""
        if self._process.stdin is None:
            return
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def events(self) -> Iterator[DownloadEvent]:
        """All events to the end; a child that ends without a verdict yields a failure."""
        for line in self._process.stdout or ():
            if not line.endswith("\n"):
                break  # killed in the middle of a line
            event = DownloadEvent.from_line(line)
            yield event
            if event.event in ("done", "failed"):
                return
        code = self._process.wait()
        message = f"the download process ended unexpectedly (code {code}); try again"
        yield DownloadEvent("failed", kind=DownloadError.__name__, message=message)

    def kill(self) -> None:
        """End the child and everything it has started; may be called from any thread, twice."""
        try:
            child = psutil.Process(self._process.pid)
            tree = [*child.children(recursive=True), child]
        except psutil.NoSuchProcess:
            tree = []
        for process in tree:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(tree, timeout=_KILL_SECONDS)
        self._process.wait()


@contextmanager
def ownership(work: Path) -> Iterator[None]:
    """The work folder belongs to one process at a time. Raises DownloadError if it is taken."""
    work.mkdir(parents=True, exist_ok=True)
    lock = work / "owner"
    owner = _owner(lock)
    if owner is not None and owner != os.getpid():
        raise DownloadError(f"process {owner} is downloading this already; wait for it or end it")
    lock.write_text(str(os.getpid()), "utf-8")
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _owner(lock: Path) -> int | None:
    """The process that took the folder, None if it has ended, even if another has its number."""
    try:
        process = psutil.Process(int(lock.read_text("utf-8")))
        return process.pid if process.create_time() <= lock.stat().st_mtime else None
    except (FileNotFoundError, ValueError, psutil.Error):
        return None


def _environment() -> dict[str, str]:
    paths = [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]
    python_path = os.pathsep.join(path for path in paths if path)
    return os.environ | _CHILD_ENVIRONMENT | {"PYTHONPATH": python_path}


def _safe(id_: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", id_)
