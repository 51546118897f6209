"""Jan: a model.yml for each model, which says where its file is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.sighting import MOST_FILES, Sighting

NAME = "Jan"
_FIELD = re.compile(r"^(model_path|mmproj_path|name):\s*(.+?)\s*$", re.MULTILINE)
_LARGEST = 100_000


def sightings(machine: Machine) -> Iterator[Sighting]:
    folders = [machine.data / "Jan" / "data"]
    if machine.system == "Linux":
        folders.append(machine.folder("XDG_CONFIG_HOME", machine.home / ".config") / "Jan" / "data")
    for folder in folders:
        models = folder / "llamacpp" / "models"
        for number, note in enumerate(sorted(models.glob("**/model.yml"))):
            if number == MOST_FILES:
                return
            yield from _described(note, folder)


def _described(note: Path, folder: Path) -> Iterator[Sighting]:
    """Paths are absolute, or below Jan's data folder."""
    try:
        with note.open("rb") as file:
            text = file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return
    fields = {key: value.strip("'\"") for key, value in _FIELD.findall(text)}
    if "model_path" in fields:
        path = folder / fields["model_path"]
        missing = "" if path.is_file() else "its file is gone"
        yield Sighting(path, fields.get("name", ""), missing)
    if "mmproj_path" in fields and (folder / fields["mmproj_path"]).is_file():
        yield Sighting(folder / fields["mmproj_path"])
