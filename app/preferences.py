"""What the user chose, in one JSON file: generation settings, last models, view switches."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from app.settings import Settings, settings_from_json
from engine.files.stored import read_stored, write_stored

_ONCE_LONGEST = 1024
"""The longest reply in files from before the thinking budget, where nothing else was chosen: it
ended many a thought before any answer."""


@dataclass(frozen=True, slots=True)
class View:
    """How replies are drawn. ghosts: show rejected drafts. theme: system, light or dark."""

    view: str = "rendered"
    colour: str = "outcome"
    ghosts: bool = True
    theme: str = "system"


VIEW_CHOICES: dict[str, tuple[str | bool, ...]] = {
    "view": ("rendered", "tokens"),
    "colour": ("outcome", "drafter", "predictability", "off"),
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

    problem: what was wrong with the file on disk, which was put aside; "" if nothing was.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        stored = read_stored(path, _parse, Preferences())
        self.problem = stored.problem
        self._current = stored.content

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
        write_stored(self._path, preferences.to_json(), indent=2)
        self._current = preferences


def _parse(data: Any) -> Preferences:
    known = {item.name for item in fields(Settings)}
    stored = {name: value for name, value in data["settings"].items() if name in known}
    if "thinking_budget" not in stored and stored.get("max_tokens") == _ONCE_LONGEST:
        del stored["max_tokens"]
    target, drafters = data["target"], data["drafters"]
    named = isinstance(drafters, list) and all(isinstance(one, str) for one in drafters)
    if not named or not isinstance(target, str | None):
        raise ValueError("the models that were loaded last have no names")
    return Preferences(
        settings=settings_from_json({**asdict(Settings()), **stored}),
        view=View(**{**asdict(View()), **_known_view(data["view"])}),
        target=target,
        drafters=tuple(drafters),
    )


def _known_view(changes: dict[str, Any]) -> dict[str, Any]:
    """Only what is known, of the very type that is known: 1 is not True here."""
    return {
        name: value
        for name, value in changes.items()
        if any(value is one or (isinstance(one, str) and value == one) for one in _choices(name))
    }


def _choices(name: str) -> tuple[str | bool, ...]:
    return VIEW_CHOICES.get(name, ())
