"""Ollama: manifests that name blobs, which have no ending.

Read only: `ollama rm` may take a blob away at any time. The folder of the Linux service belongs to
its own user and group; where that keeps us out, it is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.files.gguf import GgufInfo
from engine.files.gguf_header import read_header
from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.sighting import MOST_FILES, Sighting, json_note

NAME = "Ollama"
_KIND = "application/vnd.ollama.image."
_WANTED = {"model": "", "projector": " projector", "adapter": " adapter", "draft": " draft"}
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_OWN_ARCHITECTURES = ("gptoss", "mllama")
_IMAGE_PARTS = ("v.", "mm.")
"""Tensors that llama.cpp expects in a file of their own."""
_LIBRARY = "library"
"""Where models without an owner are."""


def sightings(machine: Machine) -> Iterator[Sighting]:
    folder = machine.folder("OLLAMA_MODELS", machine.home / ".ollama" / "models")
    yield from _models(folder)
    service = machine.root / "usr" / "share" / "ollama" / ".ollama" / "models"
    if machine.system == "Linux" and service != folder:
        yield from _models(service)


def _models(folder: Path) -> Iterator[Sighting]:
    manifests = folder / "manifests"
    try:
        if not manifests.is_dir():
            return
        notes = sorted(path for path in manifests.glob("*/*/*/*") if path.is_file())
    except PermissionError:
        why = "only Ollama's own group may read it; ask for membership of the group ollama"
        yield Sighting(folder, "Ollama's models", why)
        return
    for note in notes[:MOST_FILES]:
        name = _name(note.relative_to(manifests))
        yield from _layers(json_note(note), folder / "blobs", name)


def obstacle(path: Path, info: GgufInfo) -> str:
    """Why llama.cpp cannot run a file that Ollama wrote its own way, "" if it can."""
    own_form = info.architecture in _OWN_ARCHITECTURES
    if info.is_model and not own_form:
        own_form = any(tensor.name.startswith(_IMAGE_PARTS) for tensor in read_header(path).tensors)
    return "made for Ollama; fetch the publisher's file" if own_form else ""


def _layers(manifest: dict[str, Any], blobs: Path, name: str) -> Iterator[Sighting]:
    layers = manifest.get("layers")
    for layer in layers if isinstance(layers, list) else []:
        kind = str(layer.get("mediaType", "")) if isinstance(layer, dict) else ""
        digest = _DIGEST.fullmatch(str(layer.get("digest", ""))) if kind else None
        what = _WANTED.get(kind.removeprefix(_KIND))
        if digest is None or what is None:
            continue
        path = blobs / f"sha256-{digest[1]}"
        missing = "" if path.is_file() else "Ollama lists it, but its file is gone"
        yield Sighting(path, name + what, missing)


def _name(manifest: Path) -> str:
    """As Ollama writes it: qwen3:8b, or host/owner/name:Q4_K_M."""
    host, owner, model, tag = manifest.parts
    place = "" if owner == _LIBRARY else f"{host}/{owner}/"
    return f"{place}{model}:{tag}"
