"""Heads and small drafters that were trained here or ship with Forerun: which are for a target.

A result is a folder with heads.gguf and card.json, which appears complete or not at all. It belongs
to one model file, by its SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.data.documents import parse_json
from engine.data.errors import IncompatiblePairError
from engine.data.folders import DataFolder
from engine.data.shown import shown_name
from engine.files.file_key import FileKey, file_key
from engine.files.measurements import Measurements, measurement_key
from engine.files.stored import MISREAD

TRAINED_KINDS = ("medusa", "eagle3", "early-exit")
SHIPPED = Path(__file__).resolve().parents[2] / "assets" / "heads"
WEIGHTS, CARD = "heads.gguf", "card.json"


@dataclass(frozen=True, slots=True)
class TrainedDrafter:
    """accepted: expected length of a greedy chain on held-out text. shipped: came with Forerun."""

    kind: str
    name: str
    folder: Path
    target_name: str
    target_sha256: str
    accepted: float
    shipped: bool

    @property
    def weights(self) -> Path:
        return self.folder / WEIGHTS

    @property
    def reference(self) -> str:
        """The drafter expression that names it."""
        return f"{self.kind}:{self.name}"


def trained_drafters(data_folder: DataFolder, shipped: Path = SHIPPED) -> list[TrainedDrafter]:
    """Those trained here, the newest first, then those that ship. What is damaged is left out."""
    own = sorted(_in(data_folder.heads, shipped=False), key=_age)
    return [*own, *sorted(_in(shipped, shipped=True), key=lambda one: one.name)]


def for_target(
    kind: str, name: str, target: Path, data_folder: DataFolder, shipped: Path = SHIPPED
) -> TrainedDrafter | None:
    """The one of that name, with "" the best one trained here, else one that ships; None if there
    is none. IncompatiblePairError when the one that is named was trained for another model.
    """
    known = [one for one in trained_drafters(data_folder, shipped) if one.kind == kind]
    if name:
        known = [one for one in known if one.name == name]
    if not known:
        return None
    sha256 = model_sha256(target, data_folder)
    fitting = [one for one in known if one.target_sha256 == sha256]
    if fitting:
        return max(fitting, key=lambda one: (not one.shipped, one.accepted))
    if not name:
        return None
    raise IncompatiblePairError(
        f"{known[0].reference} was trained for {known[0].target_name}, another file than "
        f"{target.name}: train one for it with `forerun train {kind}`"
    )


def model_sha256(path: Path, data_folder: DataFolder) -> str:
    """Of a model file, remembered until the file changes."""
    return _sha256(file_key(path), data_folder.measurements_file)


@lru_cache(maxsize=64)
def _sha256(key: FileKey, file: Path) -> str:
    known = Measurements(file)
    name = measurement_key("sha256", key.path, "file")
    found = (known.get(name) or {}).get("sha256")
    if isinstance(found, str):
        return found
    with key.path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    known.put(name, {"sha256": digest})
    return digest


def _age(one: TrainedDrafter) -> float:
    return -one.weights.stat().st_mtime


def _in(folder: Path, *, shipped: bool) -> Iterator[TrainedDrafter]:
    if not folder.is_dir():
        return
    for card in folder.glob(f"[!.]*/{CARD}"):
        found = _read(card, shipped)
        if found is not None:
            yield found


def _read(card: Path, shipped: bool) -> TrainedDrafter | None:
    try:
        content: dict[str, Any] = parse_json(card.read_bytes(), repair=True)
        found = TrainedDrafter(
            kind=str(content["kind"]),
            name=str(content["name"]),
            folder=card.parent,
            target_name=shown_name(str(content["target"]["name"])),
            target_sha256=str(content["target"]["sha256"]),
            accepted=float(content["heldout"]["accepted"]),
            shipped=shipped,
        )
    except (OSError, *MISREAD):
        return None  # not ours, or damaged: nothing that can be offered
    return found if found.kind in TRAINED_KINDS and found.weights.is_file() else None
