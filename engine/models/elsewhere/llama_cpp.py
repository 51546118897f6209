"""llama.cpp's own downloads: flat files, or the Hub's layout in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator

from engine.models.elsewhere.hub_cache import repositories
from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.sighting import Sighting

NAME = "llama.cpp"


def sightings(machine: Machine) -> Iterator[Sighting]:
    folder = machine.folder("LLAMA_CACHE", machine.cache / "llama.cpp")
    yield from (Sighting(path) for path in sorted(folder.glob("*.gguf")))
    yield from repositories(folder)
