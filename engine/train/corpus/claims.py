"""Which of several collectors works on which block of documents: locks, freed by the system."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Claims:
    """Blocks by the id of their first document, so that it is the same block whatever else is
    collected. A lock ends with its process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, IO[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def take(self, first: str) -> bool:
        """False when another process, or this one, has it."""
        block = hashlib.sha256(first.encode()).hexdigest()[:16]
        if block in self._held:
            return False
        file = (self._folder / block).open("a+b")
        if not _lock(file):
            file.close()
            return False
        self._held[block] = file
        return True

    def close(self) -> None:
        for file in self._held.values():
            file.close()
        self._held.clear()


def _lock(file: IO[bytes]) -> bool:
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
