"""Which of several collectors works on which block of documents: locks, freed by the system."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engine.files.file_lock import FileLock


class Claims:
    """Blocks by the id of their first document, so that it is the same block whatever else is
    collected. A lock ends with its process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, FileLock] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def take(self, first: str) -> bool:
        """False when another process, or this one, has it."""
        block = hashlib.sha256(first.encode()).hexdigest()[:16]
        lock = FileLock(self._folder / block)
        if block in self._held or not lock.take():
            return False
        self._held[block] = lock
        return True

    def close(self) -> None:
        for lock in self._held.values():
            lock.close()
        self._held.clear()
