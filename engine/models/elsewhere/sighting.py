"""A file of another program that may be a model, and how folders are looked through for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.documents import DocumentError, parse_json
from engine.files.gguf_split import follows_another

MOST_FILES = 5_000
"""Of one program: more than anybody has, and an end to a folder that is none of models."""
_MOST_DEPTH = 8
_LARGEST_NOTE = 4_000_000
"""Bytes of a settings file or a manifest."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """name: what that program calls it, "" for the file's own. problem: why it cannot be read."""

    path: Path
    name: str = ""
    problem: str = ""


def gguf_files(folder: Path) -> Iterator[Path]:
    """In order of their names, of split models the first part. Links to folders are followed once,
    folders that may not be read are left out."""
    seen: set[tuple[int, int]] = set()
    for root, names, files in os.walk(folder, followlinks=True):
        here = Path(root)
        if _is_known(here, seen) or len(here.relative_to(folder).parts) >= _MOST_DEPTH:
            names.clear()
            continue
        names.sort()
        for name in sorted(files):
            path = here / name
            if name.lower().endswith(".gguf") and not follows_another(path):
                yield path


def json_note(path: Path) -> dict[str, Any]:
    """A JSON table of another program's; an empty one if there is none that can be read."""
    try:
        with path.open("rb") as file:
            content = parse_json(file.read(_LARGEST_NOTE))
    except (OSError, DocumentError):
        return {}
    return content if isinstance(content, dict) else {}


def text_note(path: Path) -> str:
    """The first line of a text file, "" if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode("utf-8", "replace").partition("\n")[0].strip()
    except OSError:
        return ""


def _is_known(folder: Path, seen: set[tuple[int, int]]) -> bool:
    try:
        state = folder.stat()
    except OSError:
        return True
    identity = (state.st_dev, state.st_ino)
    known = identity in seen
    seen.add(identity)
    return known
