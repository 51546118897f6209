"""Folders with published heads: which kind they hold, and whether those belong to a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.data.errors import ModelFileError
from engine.files.checkpoint import CONFIG_NAME, TORCH_NAME, read_checkpoint, read_config
from engine.files.file_key import FileKey, file_key
from engine.files.gguf import inspect
from engine.files.tensor_data import TensorData
from engine.heads.eagle_file import read_eagle
from engine.heads.medusa_file import CHECKPOINT_NAMES, read_medusa
from engine.heads.pairing import eagle_obstacle, medusa_obstacle

METHODS = {"medusa": "Medusa", "eagle": "EAGLE-1/2", "eagle3": "EAGLE-3"}
"""Kinds of drafter expressions that heads in folders are for, and their methods."""

_EAGLE3_KEYS = ("d2t", "t2d", "midlayer.")


@dataclass(frozen=True, slots=True)
class HeadsFolder:
    """kind: of the drafter expression that runs it. bytes: of its weights.

    problem: why it cannot be read, else "".
    """

    kind: str
    bytes: int
    problem: str = ""

    @property
    def method(self) -> str:
        return METHODS[self.kind]


def heads_folder(folder: Path) -> HeadsFolder | None:
    """None for a folder without heads, as one with a whole model. Remembered until it changes."""
    weights = _weights(folder)
    if not weights:
        return None
    config = folder / CONFIG_NAME
    files = (*weights, config) if config.is_file() else weights
    return _heads_folder(folder, tuple(map(file_key, weights)), tuple(map(file_key, files)))


def folder_obstacle(target: Path, folder: Path) -> str:
    """Why the heads in a folder cannot draft for a target, "" if they can.

    ModelFileError when one of them cannot be read.
    """
    ours, heads = inspect(target), heads_folder(folder)
    if ours.needs is not None:
        return f"the target needs {ours.needs}"
    if heads is None:
        return "the folder does not hold heads of another model"
    if heads.kind == "medusa":
        return medusa_obstacle(ours, read_medusa(folder))
    if heads.kind == "eagle":
        return eagle_obstacle(ours, read_eagle(folder))
    return "make a GGUF file of it first: `forerun models convert-eagle3`"


def _weights(folder: Path) -> tuple[Path, ...]:
    """The files that the readers would take."""
    medusa = [folder / name for name in CHECKPOINT_NAMES if (folder / name).is_file()]
    if medusa:
        return (medusa[0],)
    if not (folder / CONFIG_NAME).is_file():
        return ()
    torch = folder / TORCH_NAME
    return tuple(sorted(folder.glob("*.safetensors"))) or ((torch,) if torch.is_file() else ())


@lru_cache(maxsize=256)
def _heads_folder(
    folder: Path, weights: tuple[FileKey, ...], _files: tuple[FileKey, ...]
) -> HeadsFolder | None:
    """_files: what the answer depends on."""
    size = sum(one.bytes for one in weights)
    is_medusa = weights[0].path.name in CHECKPOINT_NAMES
    if not is_medusa and not _has_one_layer(folder):
        return None
    try:
        if is_medusa:
            read_medusa(folder)
            return HeadsFolder("medusa", size)
        _, tensors = read_checkpoint(folder)
        kind = _eagle_kind(tensors)
        if kind == "eagle":
            read_eagle(folder)
    except ModelFileError as error:
        return HeadsFolder("medusa" if is_medusa else "eagle", size, str(error))
    return HeadsFolder(kind, size) if kind else None


def _has_one_layer(folder: Path) -> bool:
    """As drafters have; whole models, which have more, are not opened. False where unreadable."""
    try:
        return bool(read_config(folder / CONFIG_NAME).get("num_hidden_layers", 1) == 1)
    except ModelFileError:
        return False


def _eagle_kind(tensors: Mapping[str, TensorData]) -> str:
    """ "" for anything else."""
    names = {name.removeprefix("model.") for name in tensors}
    if "fc.weight" not in names:
        return ""
    return "eagle3" if any(name.startswith(_EAGLE3_KEYS) for name in names) else "eagle"
