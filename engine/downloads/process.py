"""The parent's side of a download's child process: start it, talk to it, end it, clean up."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from engine.children.json_child import ChildPlan, JsonChild
from engine.data.errors import DownloadError
from engine.data.folders import DataFolder
from engine.downloads.transfer import DownloadEvent
from engine.files.disk import has_ended
from engine.files.privacy import USUAL_MASK
from engine.models.hub_cache import hub_cache

_LOG = logging.getLogger(__name__)
STAGE_PREFIX = ".forerun-"
_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
IDLE_SECONDS = 120.0
"""Without a byte, an answer or any work, a download hangs: the libraries give up far sooner."""
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


def open_child(module: str, log: Path, idle: float = IDLE_SECONDS) -> JsonChild:
    """`python -m engine.downloads.MODULE`, JSON lines both ways. OSError when it cannot start."""
    return JsonChild(
        ChildPlan(
            name=module,
            command=(sys.executable, "-m", f"engine.downloads.{module}"),
            environment=_environment(),
            errors=log,
            mask=USUAL_MASK,  # the Hub's cache is other programs' too
            idle=idle,
        )
    )


def events(child: JsonChild) -> Iterator[DownloadEvent]:
    """All events to the end; a child that ends without a verdict yields a failure."""
    for message in child.messages():
        event = DownloadEvent.from_message(message)
        if event is None:
            _LOG.warning("a download says what no download says: %.200r", message)
            continue
        yield event
        if event.event in ("done", "failed"):
            return
    reason = f"the download process ended unexpectedly ({child.exit_reason()}); try again"
    yield DownloadEvent("failed", kind=DownloadError.__name__, message=reason)


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
    return _CHILD_ENVIRONMENT | {"PYTHONPATH": python_path}


def _safe(id_: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", id_)
