"""Where programs keep things on this kind of system."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """home: the user's folder. system: "Linux", "Darwin" or "Windows". variables: environment.

    root: what absolute paths of the system lie below.
    """

    home: Path
    system: str
    variables: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path("/")

    @property
    def data(self) -> Path:
        """What a program keeps for its user."""
        if self.system == "Darwin":
            return self.home / "Library" / "Application Support"
        if self.system == "Windows":
            return self.folder("APPDATA", self.home / "AppData" / "Roaming")
        return self.folder("XDG_DATA_HOME", self.home / ".local" / "share")

    @property
    def local_data(self) -> Path:
        """The same where Windows keeps what stays on this machine."""
        if self.system == "Windows":
            return self.folder("LOCALAPPDATA", self.home / "AppData" / "Local")
        return self.data

    @property
    def cache(self) -> Path:
        """What could be fetched again."""
        if self.system == "Darwin":
            return self.home / "Library" / "Caches"
        if self.system == "Windows":
            return self.local_data
        return self.folder("XDG_CACHE_HOME", self.home / ".cache")

    def folder(self, variable: str, otherwise: Path) -> Path:
        """The one that a variable of the environment names."""
        named = self.variables.get(variable)
        return self.path(named) if named else otherwise

    def path(self, written: str) -> Path:
        """As another program wrote it: ~ is the user's folder."""
        if written == "~" or written.startswith(("~/", "~\\")):
            return self.home / written[2:]
        return Path(written)


def this_machine() -> Machine:
    return Machine(Path.home(), platform.system(), dict(os.environ))
