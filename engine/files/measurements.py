"""What was measured on this machine before: one small JSON file, keyed by all it depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.data.shown import shown
from engine.files.stored import read_stored, write_stored

PASSES = "passes"
"""Kind of the measurements that have T(n) of a target."""


def measurement_key(kind: str, model: Path, setup: str) -> str:
    """kind of measurement, identity of the model file, and the setup it was measured with."""
    status = model.stat()
    return f"{kind}|{shown(model.name)}|{status.st_size}|{status.st_mtime_ns}|{setup}"


class Measurements:
    """A missing file means that nothing was measured yet, and so does a damaged one, which is put
    aside: it can be measured again."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def get(self, key: str) -> dict[str, Any] | None:
        value = self._read().get(key)
        return value if isinstance(value, dict) else None

    def passes(self, model: Path) -> dict[int, float] | None:
        """T(n) of a target by width, as it was measured last, in whatever setup.

        None before its first load, and when the entry is damaged.
        """
        start = measurement_key(PASSES, model, "")
        found = [value for key, value in self._read().items() if key.startswith(start)]
        try:
            passes = {int(width): float(taken) for width, taken in found[-1]["passes"].items()}
        except (IndexError, KeyError, TypeError, ValueError, AttributeError):
            return None
        return passes if 1 in passes and min(passes.values()) > 0.0 else None

    def put(self, key: str, value: dict[str, Any]) -> None:
        write_stored(self.file, {**self._without(key), key: value})

    def _without(self, key: str) -> dict[str, Any]:
        return {name: value for name, value in self._read().items() if name != key}

    def _read(self) -> dict[str, Any]:
        nothing: dict[str, Any] = {}
        return read_stored(self.file, _table, nothing).content


def _table(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise TypeError("it is not a table")
    return content
