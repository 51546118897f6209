"""The data folder: where models, derived models, downloads, logs and the user's files live."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True, slots=True)
class DataFolder:
    """All paths below one root; nothing is created before `ensure`."""

    root: Path

    @property
    def models(self) -> Path:
        """Fetched models, and the record of those that live in the Hub's cache."""
        return self.root / "models"

    @property
    def derived(self) -> Path:
        """Models the engine made from others: skipped layers, other quantisations."""
        return self.root / "derived"

    @property
    def training(self) -> Path:
        """What heads are learned from: one folder of answers and features for each target."""
        return self.root / "training"

    @property
    def heads(self) -> Path:
        """Heads that were trained here, one folder each."""
        return self.root / "heads"

    @property
    def skip_searches(self) -> Path:
        """How far searches for layers to leave out have come."""
        return self.root / "skip-searches"

    @property
    def downloads(self) -> Path:
        """Work area of running downloads; its content is never a model."""
        return self.root / "downloads"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def conversations_file(self) -> Path:
        return self.root / "conversations.sqlite3"

    @property
    def preferences_file(self) -> Path:
        return self.root / "preferences.json"

    @property
    def presets_file(self) -> Path:
        return self.root / "presets.json"

    @property
    def measurements_file(self) -> Path:
        """What was measured on this machine before (engine/files/measurements.py)."""
        return self.root / "measurements.json"

    @property
    def learned_file(self) -> Path:
        """How often drafters were right in earlier chats (engine/serving/tuning.py)."""
        return self.root / "learned.json"

    @property
    def page_lock(self) -> Path:
        """Locked by the page that owns this folder (app/ownership.py)."""
        return self.root / "page.lock"

    @property
    def page_note(self) -> Path:
        """That page's process and address."""
        return self.root / "page.json"

    @property
    def user_catalogue_file(self) -> Path:
        """The user's own models.toml: adds to and overrides the catalogue."""
        return self.root / "models.toml"

    @property
    def hub_record_file(self) -> Path:
        """Which files of the Hub's cache were fetched by Forerun."""
        return self.models / "hub.json"

    def owns(self, name: str) -> bool:
        """Whether an entry of the root is Forerun's, with what was put aside or half written."""
        return name.lstrip(".").partition(".")[0] in _STEMS

    def ensure(self) -> DataFolder:
        """Create the folders, for the user alone (idempotent). OSError if that cannot be."""
        for folder in (self.root, self.models, self.derived, self.downloads, self.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self


_STEMS = frozenset(
    {"models", "derived", "training", "heads", "skip-searches", "downloads", "logs"}
    | {"conversations", "preferences", "measurements", "learned", "page"}
)


def open_data_folder(chosen: Path | None) -> DataFolder:
    """The chosen folder, else FORERUN_DATA_DIR, else the user's own folder of this platform.

    Linux: XDG_DATA_HOME or ~/.local/share/forerun; macOS: ~/Library/Application Support/forerun;
    Windows: %LOCALAPPDATA%/forerun.
    """
    named = chosen or os.environ.get("FORERUN_DATA_DIR")
    if named:
        return DataFolder(Path(os.path.expanduser(named)).resolve())
    return DataFolder(platformdirs.user_data_path("forerun", appauthor=False))


def default_data_folder() -> DataFolder:
    return open_data_folder(None)
