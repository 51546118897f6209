"""The Hub's cache on disk, shared with other tools: find and remove single files in it.

Layout (documented by huggingface_hub): models--owner--repo/{blobs,refs,snapshots/COMMIT/FILE}, the
snapshot being a link into blobs where the system has links. Reading it here keeps the library's
import, about half a second, out of every command.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from huggingface_hub import constants

from engine.data.folders import DataFolder
from engine.files.disk import user_path
from engine.files.stored import read_stored, write_stored
from engine.models.entry import HubSource, parse_hub_reference


def hub_cache() -> Path:
    """HF_HUB_CACHE as it is now (the library reads it once), else the library's own choice."""
    return user_path(os.environ.get("HF_HUB_CACHE") or constants.HF_HUB_CACHE)


def cached_file(source: HubSource, cache: Path | None = None) -> Path | None:
    """The complete file of this source, None if it is not in the cache."""
    repository = repository_folder(source.repo, cache or hub_cache())
    commit = source.revision
    reference = repository / "refs" / source.revision
    if reference.is_file():
        commit = reference.read_text("utf-8", "replace").strip()
    path = repository / "snapshots" / commit / source.file
    return path if path.is_file() else None


def remove_cached(source: HubSource, cache: Path | None = None) -> int:
    """Delete the file from every snapshot, and its blob; returns the bytes freed."""
    repository = repository_folder(source.repo, cache or hub_cache())
    found = [path for path in repository.glob(f"snapshots/*/{source.file}") if path.is_file()]
    freed = 0
    for blob in {path.resolve() for path in found}:
        freed += blob.stat().st_size
    targets = {path.resolve() for path in found}
    for path in found:
        path.unlink()
    for blob in targets:
        blob.unlink(missing_ok=True)
    return freed


def recorded(data_folder: DataFolder) -> tuple[HubSource, ...]:
    """Files fetched by owner/repo choice, in order. A damaged record is put aside:
    the models stay in the cache."""
    nothing: tuple[HubSource, ...] = ()
    return read_stored(data_folder.hub_record_file, _sources, nothing).content


def _sources(rows: Any) -> tuple[HubSource, ...]:
    found = tuple(HubSource(row["repo"], row["file"], row["revision"]) for row in rows)
    if any(parse_hub_reference(one.reference) is None for one in found):
        raise ValueError("it names a file that is not one of the Hub")
    return found


def record(data_folder: DataFolder, source: HubSource) -> None:
    """Remember that this file is one of the user's models."""
    known = recorded(data_folder)
    if source not in known:
        _write(data_folder, (*known, source))


def forget(data_folder: DataFolder, source: HubSource) -> None:
    known = recorded(data_folder)
    if source in known:
        _write(data_folder, (other for other in known if other != source))


def _write(data_folder: DataFolder, sources: Iterable[HubSource]) -> None:
    rows = [{"repo": one.repo, "file": one.file, "revision": one.revision} for one in sources]
    write_stored(data_folder.hub_record_file, rows, indent=2)


def repository_folder(repo: str, cache: Path) -> Path:
    """Where the cache keeps a repository."""
    return cache / f"models--{repo.replace('/', '--')}"
