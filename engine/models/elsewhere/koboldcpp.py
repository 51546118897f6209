"""KoboldCpp has no folder: its saved settings (.kcpps) name the files."""

from __future__ import annotations

from collections.abc import Iterator

from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.sighting import Sighting, json_note

NAME = "KoboldCpp"
_KEYS = ("model_param", "model", "mmproj", "lora", "draftmodel")
_PLACES = ("", "Downloads", "Documents", "Desktop", "koboldcpp", "KoboldCpp")


def sightings(machine: Machine) -> Iterator[Sighting]:
    for place in _PLACES:
        for settings in sorted((machine.home / place).glob("*.kcpps")):
            note = json_note(settings)
            for key in _KEYS:
                value = note.get(key)
                for written in value if isinstance(value, list) else [value]:
                    if isinstance(written, str) and written.lower().endswith(".gguf"):
                        path = settings.parent / machine.path(written)
                        missing = "" if path.is_file() else f"{settings.name} names it; it is gone"
                        yield Sighting(path, problem=missing)
