"""Where Forerun keeps models' notes, derived models, calibrations and chats."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def data_folder(chosen: Path | None = None) -> Path:
    """The chosen folder, else the user's own data folder of this platform; it need not exist yet.

    Linux: XDG_DATA_HOME or ~/.local/share/forerun; macOS: ~/Library/Application Support/forerun;
    Windows: %LOCALAPPDATA%/forerun.
    """
    if chosen is not None:
        return chosen.expanduser().resolve()
    return platformdirs.user_data_path("forerun", appauthor=False)
