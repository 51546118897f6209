"""text-generation-webui: user_data/models, in a checkout or beside a portable build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.sighting import Sighting, gguf_files

NAME = "text-generation-webui"
_FOLDERS = ("models", "mmproj", "loras")
_CHECKOUTS = ("text-generation-webui*", "textgen*")


def sightings(machine: Machine) -> Iterator[Sighting]:
    """Where people unpack it: it has no place of its own."""
    for place in (machine.home, machine.home / "Downloads", machine.home / "Documents"):
        for pattern in _CHECKOUTS:
            for checkout in sorted(place.glob(pattern)):
                yield from _below(checkout)
        yield from _below(place)


def _below(checkout: Path) -> Iterator[Sighting]:
    for name in _FOLDERS:
        yield from (Sighting(path) for path in gguf_files(checkout / "user_data" / name))
