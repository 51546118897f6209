"""From a reference (M in the commands) to a file on disk.

The rule, first match wins: `hub:...` is a Hub file; an id of the catalogue is that model, even if a
file of the same name is in the current folder; anything that ends in .gguf or contains a path
separator is a path. Nothing else is a model.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from engine.data.errors import UnknownModelError
from engine.data.folders import DataFolder
from engine.data.shown import shown_name
from engine.files.reference import file_of, reference_of
from engine.models.catalogue import Catalogue
from engine.models.entry import HUB_PREFIX, HubSource, ModelEntry, parse_hub_reference
from engine.models.hub_cache import cached_file


@dataclass(frozen=True, slots=True)
class LocatedModel:
    """id: a reference that finds the same file again. name: to show."""

    id: str
    name: str
    path: Path


def locate(reference: str, catalogue: Catalogue, data_folder: DataFolder) -> LocatedModel:
    """Find the file. Raises UnknownModelError that says what to do: fetch it, or what was meant."""
    if reference.startswith(HUB_PREFIX):
        return _hub_file(reference)
    entry = catalogue.get(reference)
    if entry is not None:
        path = fetched_path(entry, data_folder)
        if path is None:
            raise UnknownModelError(
                f"{entry.id} is not downloaded; run `forerun models fetch {entry.id}`"
            )
        return LocatedModel(entry.id, entry.name, path)
    if looks_like_path(reference):
        return _local_file(reference)
    raise UnknownModelError(_unknown(reference, catalogue))


def fetched_path(entry: ModelEntry, data_folder: DataFolder) -> Path | None:
    """Where the entry's file is: the data folder, else the Hub's cache; None if nowhere."""
    own = own_path(entry.id, data_folder)
    if own.is_file():
        return own
    for source in entry.sources:
        if isinstance(source, HubSource):
            cached = cached_file(source)
            if cached is not None:
                return cached
    return None


def own_path(id_: str, data_folder: DataFolder) -> Path:
    """Where a model that does not live in the Hub's cache is kept."""
    return data_folder.models / f"{id_}.gguf"


def looks_like_path(reference: str) -> bool:
    return reference.endswith(".gguf") or "/" in reference or "\\" in reference


def _hub_file(reference: str) -> LocatedModel:
    source = parse_hub_reference(reference)
    if source is None:
        raise UnknownModelError(f"{reference} is not a Hub file; write hub:owner/repo/file.gguf")
    path = cached_file(source)
    if path is None:
        raise UnknownModelError(
            f"{reference} is not downloaded; run `forerun models fetch {reference}`"
        )
    return LocatedModel(reference, Path(source.file).stem, path)


def _local_file(reference: str) -> LocatedModel:
    path = Path(os.path.abspath(file_of(reference)))  # without "..", as `remove` needs
    if os.path.isdir(path):
        raise UnknownModelError(f"{reference} is a folder; give the path of a GGUF file in it")
    if not os.path.isfile(path):
        raise UnknownModelError(f"there is no file {reference}; check the path")
    return LocatedModel(reference_of(path), shown_name(path.stem), path)


def _unknown(reference: str, catalogue: Catalogue) -> str:
    close = difflib.get_close_matches(reference.lower(), catalogue.ids, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "see `forerun models list`"
    return f"there is no model {reference!r}; {hint}"
