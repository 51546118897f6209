"""How far a search for layers has come: one JSON file, so that it goes on where it was stopped."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.data.errors import RunError
from engine.files.stored import read_stored, write_stored
from engine.skip.report import SkipSearchRequest
from engine.skip.search import Skip
from engine.skip.trial import Reference

_Content = tuple[tuple[Reference, ...], dict[Skip, float]]
_SAVE_SECONDS = 5.0


class SearchState:
    """Texts of the target, and what every set of layers was worth on them. RunError: disk full."""

    def __init__(self, file: Path) -> None:
        self.references: tuple[Reference, ...] = ()
        self.values: dict[Skip, float] = {}
        self._file = file
        self._saved = time.monotonic()
        self._read()

    def note(self, skip: Skip, value: float) -> None:
        self.values[skip] = value
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        content = {
            "references": [asdict(one) for one in self.references],
            "values": [[list(skip), value] for skip, value in self.values.items()],
        }
        try:
            write_stored(self._file, content, indent=None)
        except OSError as error:
            raise RunError(
                f"{self._file} cannot be written ({error.strerror or error}); free some space,"
                " or choose another --data-dir"
            ) from error
        self._saved = time.monotonic()

    def _read(self) -> None:
        """A missing or damaged file means that nothing was tried yet."""
        nothing: _Content = ((), {})
        self.references, self.values = read_stored(self._file, _parse, nothing).content


def _parse(content: Any) -> _Content:
    references = tuple(
        Reference(one["category"], tuple(one["prompt"]), tuple(one["reply"]))
        for one in content["references"]
    )
    return references, {tuple(skip): float(value) for skip, value in content["values"]}


def state_file(folder: Path, model: Path, request: SkipSearchRequest) -> Path:
    """Of a model file and all that the values depend on; not of the budget or the seed."""
    status = model.stat()
    prompts = [(one.category, one.text) for one in request.prompts]
    depends = [model.name, status.st_size, status.st_mtime_ns, request.reply_tokens, prompts]
    mark = hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:12]
    return folder / f"{model.stem}-{mark}.json"
