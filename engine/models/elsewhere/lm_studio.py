"""LM Studio: publisher/repository/file.gguf in a folder that its settings name."""

from __future__ import annotations

from collections.abc import Iterator

from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.sighting import Sighting, gguf_files, json_note, text_note

NAME = "LM Studio"


def sightings(machine: Machine) -> Iterator[Sighting]:
    pointed = text_note(machine.home / ".lmstudio-home-pointer")
    older = machine.home / ".cache" / "lm-studio"
    home = older if older.is_dir() else machine.home / ".lmstudio"
    home = machine.path(pointed) if pointed else home
    chosen = json_note(home / "settings.json").get("downloadsFolder")
    folder = machine.path(chosen) if isinstance(chosen, str) and chosen else home / "models"
    yield from (Sighting(path) for path in gguf_files(folder))
