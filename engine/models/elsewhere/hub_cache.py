"""The Hub's cache, which several programs share: models--owner--name/snapshots/COMMIT/file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.sighting import Sighting, gguf_files

NAME = "Hugging Face"


def sightings(machine: Machine) -> Iterator[Sighting]:
    yield from repositories(_folder(machine))


def repositories(folder: Path) -> Iterator[Sighting]:
    """Names of files are links into the repository's blobs, where the system has links."""
    for repository in sorted(folder.glob("models--*")):
        yield from (Sighting(path) for path in gguf_files(repository / "snapshots"))


def _folder(machine: Machine) -> Path:
    cache = machine.folder("XDG_CACHE_HOME", machine.home / ".cache") / "huggingface"
    home = machine.folder("HF_HOME", cache)
    return machine.folder("HF_HUB_CACHE", home / "hub")
