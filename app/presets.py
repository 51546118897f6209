"""Presets: named sets of system prompt and sampling, in one file beside the preferences."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.own_settings import NOTHING, OwnSettings, own_from_json
from engine.data.errors import BadOptionError
from engine.files.stored import read_stored, write_stored

MOST_PRESETS = 500
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    own: OwnSettings


@dataclass(frozen=True, slots=True)
class Presets:
    """items: by name. default: of new chats, "" for none."""

    items: tuple[Preset, ...] = ()
    default: str = ""

    def get(self, name: str) -> Preset | None:
        return next((one for one in self.items if one.name == name), None)

    def to_json(self) -> dict[str, Any]:
        items = [{"name": one.name} | one.own.to_json() for one in self.items]
        return {"presets": items, "default": self.default}


class PresetsFile:
    """Thread-safe; a change is on disk before its method returns. problem: what was wrong with the
    file on disk, which was put aside; "" if nothing was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        stored = read_stored(path, _parse, Presets())
        self.problem = stored.problem
        self._current = stored.content

    @property
    def current(self) -> Presets:
        return self._current

    def require(self, name: str) -> Preset:
        found = self._current.get(name)
        if found is None:
            raise BadOptionError(f"there is no preset “{name}” any more")
        return found

    def of_new_chats(self) -> OwnSettings:
        """What a new chat begins with."""
        found = self._current.get(self._current.default)
        return NOTHING if found is None else chosen(found)

    def save(self, name: str, own: OwnSettings, over: bool = False) -> str:
        """Its name. over: it may take the place of one of the same name. BadOptionError."""
        cleaned = cleaned_name(name)
        with self._lock:
            others = [one for one in self._current.items if not _is_same(one.name, cleaned)]
            if len(others) < len(self._current.items) and not over:
                raise BadOptionError(f"there is a preset “{cleaned}” already: take another name")
            if len(others) >= MOST_PRESETS:
                raise BadOptionError(f"there are {MOST_PRESETS} presets: delete some first")
            self._write([*others, Preset(cleaned, replace(own, preset=""))], self._current.default)
        return cleaned

    def add(self, name: str, own: OwnSettings) -> str:
        """As `save`, under the first name that is free."""
        stem, number = cleaned_name(name), 1
        taken = {one.name.casefold() for one in self._current.items}
        free = stem
        while free.casefold() in taken:
            number += 1
            free = f"{stem[: LONGEST_NAME - 6]} {number}"
        return self.save(free, own)

    def rename(self, name: str, new: str) -> str:
        cleaned, preset = cleaned_name(new), self.require(name)
        with self._lock:
            others = [one for one in self._current.items if one.name != name]
            if any(_is_same(one.name, cleaned) for one in others):
                raise BadOptionError(f"there is a preset “{cleaned}” already: take another name")
            default = cleaned if self._current.default == name else self._current.default
            self._write([*others, replace(preset, name=cleaned)], default)
        return cleaned

    def delete(self, name: str) -> None:
        """Chats that were begun with it keep what they have of it."""
        self.require(name)
        with self._lock:
            others = [one for one in self._current.items if one.name != name]
            self._write(others, "" if self._current.default == name else self._current.default)

    def set_default(self, name: str) -> None:
        """ "": new chats begin with the general settings."""
        if name:
            self.require(name)
        with self._lock:
            self._write(self._current.items, name)

    def _write(self, items: Iterable[Preset], default: str) -> None:
        ordered = tuple(sorted(items, key=lambda one: one.name.casefold()))
        presets = Presets(ordered, default)
        write_stored(self._path, presets.to_json())
        self._current = presets


def chosen(preset: Preset) -> OwnSettings:
    """What a chat gets of it: its own copy, so that no later change of the preset reaches it."""
    return replace(preset.own.of_a_chat(), preset=preset.name)


def cleaned_name(name: str) -> str:
    cleaned = " ".join(name.split())[:LONGEST_NAME]
    if not cleaned:
        raise BadOptionError("a preset needs a name")
    return cleaned


def _is_same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()


def _parse(data: Any) -> Presets:
    items = tuple(Preset(cleaned_name(one["name"]), own_from_json(one)) for one in data["presets"])
    default = data["default"]
    if not isinstance(default, str) or len({one.name.casefold() for one in items}) < len(items):
        raise ValueError("two presets have one name, or the default has none")
    known = default in {one.name for one in items}
    return Presets(items, default if known else "")
