"""GPT4All: flat files in its data folder, or in the one that its settings name."""

from __future__ import annotations

import configparser
from collections.abc import Iterator
from pathlib import Path

from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.sighting import Sighting

NAME = "GPT4All"


def sightings(machine: Machine) -> Iterator[Sighting]:
    folders = [machine.local_data / "nomic.ai" / "GPT4All", machine.home / ".cache" / "gpt4all"]
    chosen = _chosen(machine)
    if chosen is not None:
        folders.insert(0, chosen)
    for folder in dict.fromkeys(folders):
        for path in sorted(folder.glob("*.gguf")):
            if not path.name.startswith("incomplete-"):
                yield Sighting(path)


def _chosen(machine: Machine) -> Path | None:
    settings = machine.home / ".config" / "nomic.ai" / "GPT4All.ini"
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(settings, "utf-8")
        written = parser.get("General", "modelPath", fallback="")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None
    return machine.path(written) if written else None
