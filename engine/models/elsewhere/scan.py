"""Every model of the other programs, each file once, with what it is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from engine.data.errors import ModelFileError
from engine.data.shown import shown_name
from engine.files.gguf import GgufInfo, inspect
from engine.files.reference import reference_of
from engine.models.elsewhere import (
    gpt4all,
    hub_cache,
    jan,
    koboldcpp,
    llama_cpp,
    lm_studio,
    ollama,
    textgen,
)
from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.sighting import MOST_FILES, Sighting

Role = Literal["model", "drafter", "projector", "adapter", "statistics", "embedding", "other"]

PROGRAMS: tuple[tuple[str, Callable[[Machine], Iterator[Sighting]]], ...] = (
    (lm_studio.NAME, lm_studio.sightings),
    (ollama.NAME, ollama.sightings),
    (jan.NAME, jan.sightings),
    (gpt4all.NAME, gpt4all.sightings),
    (llama_cpp.NAME, llama_cpp.sightings),
    (textgen.NAME, textgen.sightings),
    (koboldcpp.NAME, koboldcpp.sightings),
    (hub_cache.NAME, hub_cache.sightings),
)
"""The first one that has a file is named with it: the shared cache comes last."""

_BY_NAME: tuple[tuple[re.Pattern[str], Role], ...] = (
    (re.compile(r"(?i)mmproj"), "projector"),
    (re.compile(r"(?i)imatrix"), "statistics"),
    (re.compile(r"(?i)^(mtp|eagle3|dflash|dspark)-"), "drafter"),
)
_BY_NEED: dict[str, Role] = {
    "an image projector": "projector",
    "an adapter (LoRA)": "adapter",
    "statistics": "statistics",
    "an embedding model": "embedding",
}
_DRAFTING = re.compile(r"EAGLE|DFlash|Medusa|drafting$")


@dataclass(frozen=True, slots=True)
class FoundModel:
    """One file, split models as one. problem: why it cannot be used, "" if it can. info: None then.

    bytes: of all parts.
    """

    program: str
    path: Path
    name: str
    role: Role
    info: GgufInfo | None
    bytes: int
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fixed form of `forerun models scan --json`."""
        info = self.info
        return {
            "program": self.program,
            "path": reference_of(self.path),
            "name": self.name,
            "architecture": info.architecture if info is not None else "",
            "parameters": info.parameters if info is not None else 0,
            "quant": info.quant if info is not None else "",
            "bytes": self.bytes,
            "role": self.role,
            "problem": self.problem,
        }


def scan(machine: Machine) -> tuple[FoundModel, ...]:
    """Program by program; a file that two of them have, as a link or by name, is listed once."""
    found: list[FoundModel] = []
    seen: set[tuple[int, int] | Path] = set()
    for program, sightings in PROGRAMS:
        for sighting in islice(sightings(machine), MOST_FILES):
            identity = _identity(sighting.path)
            if identity not in seen:
                seen.add(identity)
                found.append(_looked_at(program, sighting))
    return tuple(found)


def _identity(path: Path) -> tuple[int, int] | Path:
    """Of the file, whatever names it has; of one that is gone, its name."""
    try:
        state = path.stat()
    except OSError:
        return Path(os.path.abspath(path))
    return state.st_dev, state.st_ino


def _looked_at(program: str, sighting: Sighting) -> FoundModel:
    path = sighting.path
    name = shown_name(sighting.name or path.stem)
    problem, info = sighting.problem, None
    if not problem:
        try:
            info = inspect(path)
        except ModelFileError as error:
            problem = str(error)
    if info is not None and program == ollama.NAME:
        problem = ollama.obstacle(path, info)
    size = info.bytes if info is not None else _bytes(path)
    role = _role(path.name, info)
    if info is not None and info.needs is not None:
        problem = f"needs {info.needs}" if role == "drafter" else f"it is {info.needs}"
    return FoundModel(program, path, name, role, info, size, problem)


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _role(file_name: str, info: GgufInfo | None) -> Role:
    """By what the file says, else by its name: the conventions of llama.cpp and of publishers."""
    needs = info.needs if info is not None else None
    if needs is not None and _DRAFTING.search(needs):
        return "drafter"
    if needs is not None:
        return _BY_NEED.get(needs, "other")
    named = next((role for pattern, role in _BY_NAME if pattern.search(file_name)), None)
    return named or ("model" if info is not None else "other")
