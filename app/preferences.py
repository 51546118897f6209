"""What the user chose, in one JSON file: generation settings, last models, view switches."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from app.settings import Settings, settings_from_json
from engine.data.errors import BadOptionError


@dataclass(frozen=True, slots=True)
class View:
    """How replies are drawn. ghosts: show rejected drafts. theme: system, light or dark."""

    view: str = "rendered"
    colour: str = "outcome"
    ghosts: bool = True
    theme: str = "system"


VIEW_CHOICES = {
    "view": ("rendered", "tokens"),
    "colour": ("outcome", "drafter", "off"),
    "ghosts": (True, False),
    "theme": ("system", "light", "dark"),
}


@dataclass(frozen=True, slots=True)
class Preferences:
    """target, drafters: what was loaded last, as catalogue ids and drafter expressions."""

    settings: Settings = field(default_factory=Settings)
    view: View = field(default_factory=View)
    target: str | None = None
    drafters: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class PreferencesFile:
    """The current preferences; every change is on disk before `update` returns.

    problem: set when the file on disk could not be read and was put aside.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.problem: str | None = None
        self._current = self._read()

    @property
    def current(self) -> Preferences:
        return self._current

    def set_settings(self, changes: dict[str, Any]) -> Settings:
        """Raises BadOptionError, which names the setting, and then changes nothing."""
        with self._lock:
            settings = settings_from_json({**asdict(self._current.settings), **changes})
            self._write(replace(self._current, settings=settings))
            return settings

    def set_view(self, changes: dict[str, Any]) -> View:
        with self._lock:
            view = replace(self._current.view, **_known_view(changes))
            self._write(replace(self._current, view=view))
            return view

    def set_models(self, target: str, drafters: tuple[str, ...]) -> None:
        with self._lock:
            self._write(replace(self._current, target=target, drafters=drafters))

    def _write(self, preferences: Preferences) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".part")
        partial.write_text(json.dumps(preferences.to_json(), indent=2), encoding="utf-8")
        os.replace(partial, self._path)
        self._current = preferences

    def _read(self) -> Preferences:
        if not self._path.exists():
            return Preferences()
        try:
            return _parse(json.loads(self._path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, AttributeError, BadOptionError) as error:
            aside = self._path.with_suffix(".unreadable.json")
            os.replace(self._path, aside)
            self.problem = f"Preferences could not be read ({error}); they are kept in {aside}."
            return Preferences()


def _parse(data: dict[str, Any]) -> Preferences:
    known = {item.name for item in fields(Settings)}
    stored = {name: value for name, value in data["settings"].items() if name in known}
    return Preferences(
        settings=settings_from_json({**asdict(Settings()), **stored}),
        view=View(**{**asdict(View()), **_known_view(data["view"])}),
        target=data["target"],
        drafters=tuple(data["drafters"]),
    )


def _known_view(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value in VIEW_CHOICES.get(name, ())}
