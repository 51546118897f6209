"""All models the user can choose from: catalogue, the user's list, fetched files, own folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from engine.data.errors import ModelFileError, UnknownModelError
from engine.data.folders import DataFolder
from engine.data.shown import shown_name
from engine.files.gguf import GgufInfo, inspect
from engine.files.gguf_split import follows_another
from engine.files.gguf_types import FILE_TYPES
from engine.files.reference import reference_of
from engine.heads.folder import HeadsFolder, heads_folder
from engine.models.catalogue import Catalogue
from engine.models.elsewhere.scan import FoundModel
from engine.models.entry import ModelEntry, parse_hub_reference
from engine.models.hub_cache import cached_file, forget, recorded, remove_cached
from engine.models.locate import fetched_path, locate, own_path

MAX_DEPTH = 4
MAX_FILES = 2000
_FORMATS = "|".join(map(re.escape, sorted(FILE_TYPES.values())))
_DERIVED_NAME = re.compile(rf"(.+)-[0-9a-f]{{8}}-(?:skip-(\d+(?:\+\d+)*)|({_FORMATS}))")
"""Copies to choose from, as `engine.llama.derived.derived_path` names them. What else lies beside
them, such as heads that were completed with rows of their target, is the engine's own."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One choice. id: a reference for commands and loads.

    origin: "catalogue", "user", "hub" (fetched by owner/repo choice), "folder", "derived" or
    "elsewhere" (another program's file, used where it is). program: that one's name, else "".
    path: None if not downloaded. info: None if not downloaded, unreadable or a folder. problem: why
    it cannot be used although it is there, else "". heads: of a folder with published ones.
    """

    id: str
    name: str
    origin: str
    path: Path | None
    entry: ModelEntry | None = None
    info: GgufInfo | None = None
    problem: str = ""
    heads: HeadsFolder | None = None
    program: str = ""

    @property
    def bytes(self) -> int:
        if self.info is not None:
            return self.info.bytes
        if self.heads is not None:
            return self.heads.bytes
        return self.entry.bytes or self.entry.about_bytes if self.entry is not None else 0

    @property
    def licence(self) -> str:
        """As the catalogue or the file says it, "" where neither does."""
        stated = self.entry.licence if self.entry is not None else ""
        return stated or (self.info.licence if self.info is not None else "")

    @property
    def quant(self) -> str:
        if self.info is not None:
            return self.info.quant
        return self.entry.quant if self.entry is not None else ""

    def to_json(self) -> dict[str, Any]:
        path = None if self.path is None else reference_of(self.path)
        info = None if self.info is None else self.info.to_json()
        shown = {"path": path, "info": info, "bytes": self.bytes, "quant": self.quant}
        return asdict(self) | shown


def known_models(
    catalogue: Catalogue, data_folder: DataFolder, elsewhere: Sequence[FoundModel] = ()
) -> tuple[KnownModel, ...]:
    """Everything, in a stable order; a file that two sources name is listed once.

    elsewhere: what a scan found of other programs.
    """
    models: list[KnownModel] = []
    seen: set[str] = set()
    for model in chain(_candidates(catalogue, data_folder), _of_others(elsewhere)):
        real = os.path.realpath(model.path) if model.path is not None else None
        if real is not None and real in seen:
            continue
        if real is not None:
            seen.add(real)
        models.append(model)
    return tuple(models)


def remove(reference: str, catalogue: Catalogue, data_folder: DataFolder) -> int:
    """Delete a fetched or derived model's file; returns the bytes freed.

    Raises UnknownModelError; files in the user's own folders are never deleted.
    """
    located = locate(reference, catalogue, data_folder)
    entry = catalogue.get(reference)
    source = parse_hub_reference(reference) or (entry.hub if entry is not None else None)
    own = (data_folder.models, data_folder.derived)
    freed = 0
    if any(located.path.is_relative_to(folder) for folder in own):
        freed += located.path.stat().st_size
        located.path.unlink()
    elif source is None:
        raise UnknownModelError(f"{reference} is in your own folder; delete the file yourself")
    if source is not None:
        freed += remove_cached(source)
        forget(data_folder, source)
    return freed


def _candidates(catalogue: Catalogue, data_folder: DataFolder) -> Iterator[KnownModel]:
    for entry in catalogue.entries:
        path = fetched_path(entry, data_folder)
        yield _known(KnownModel(entry.id, shown_name(entry.name), entry.origin, path, entry))
    for source in recorded(data_folder):
        path = cached_file(source)
        if path is not None:
            yield _known(
                KnownModel(source.reference, shown_name(Path(source.file).stem), "hub", path)
            )
    own = {own_path(id_, data_folder) for id_ in catalogue.ids}
    folders = [(data_folder.derived, "derived"), (data_folder.models, "folder")]
    folders += [(folder, "folder") for folder in catalogue.folders]
    for folder, origin in folders:
        for path in islice(_found(folder), MAX_FILES):
            internal = origin == "derived" and not _DERIVED_NAME.fullmatch(path.stem)
            if path not in own and not internal:
                yield _known(KnownModel(reference_of(path), shown_name(path.stem), origin, path))


def _of_others(elsewhere: Sequence[FoundModel]) -> Iterator[KnownModel]:
    """What can be a target or a drafter, and what could if it were not for its problem."""
    for found in elsewhere:
        if found.role in ("model", "drafter"):
            problem = "" if found.info is not None else found.problem
            yield KnownModel(
                id=reference_of(found.path),
                name=_title(found),
                origin="elsewhere",
                path=found.path,
                info=found.info,
                problem=problem,
                program=found.program,
            )


def _title(found: FoundModel) -> str:
    """A name of that program's own says enough; a file's own needs its quantisation."""
    quant = found.info.quant if found.info is not None else ""
    return found.name if quant.lower() in found.name.lower() else f"{found.name} {quant}"


def _found(folder: Path) -> Iterator[Path]:
    """Folders with published heads and GGUF files, of split models the first part only."""
    for root, names, files in os.walk(folder):
        here = Path(root)
        if len(here.relative_to(folder).parts) >= MAX_DEPTH:
            names.clear()
        names[:] = sorted(name for name in names if not name.startswith("."))
        if _holds_heads(here):
            yield here
        for name in sorted(files):
            path = here / name
            if name.lower().endswith(".gguf") and not follows_another(path):
                yield path


def _holds_heads(folder: Path) -> bool:
    """False where the folder may not be read."""
    try:
        return heads_folder(folder) is not None
    except (OSError, ModelFileError):
        return False


def _known(model: KnownModel) -> KnownModel:
    """Fill in what the file itself says; an unreadable file stays listed, with the reason."""
    if model.path is None:
        return model
    if model.path.is_dir():
        heads = heads_folder(model.path)
        problem = heads.problem if heads is not None else "no longer there"
        return replace(model, name=shown_name(model.path.name), heads=heads, problem=problem)
    try:
        info = inspect(model.path)
    except ModelFileError as error:
        return replace(model, problem=str(error))
    name = model.name if model.entry is not None else _readable_name(model, info)
    return replace(model, name=name, info=info)


def _readable_name(model: KnownModel, info: GgufInfo) -> str:
    """The file's own name tells two quantisations of one model apart; metadata does not.

    Copies made here carry their source's metadata, so they are named after the file.
    """
    derived = _DERIVED_NAME.fullmatch(model.name) if model.origin == "derived" else None
    if derived is not None:
        source, skipped, file_format = derived.groups()
        return f"{source} without layers {skipped}" if skipped else f"{source} as {file_format}"
    return f"{info.name} {info.quant}" if info.name != model.name else model.name
