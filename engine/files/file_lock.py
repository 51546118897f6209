"""A lock on a file that ends with its process, however that ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_BEYOND = 1 << 30
"""Windows locks bytes, and nobody else may read those: one far behind the content."""


class FileLock:
    """Held from a successful `take` to `close`. The file stays where it is: to remove it would
    let two processes hold locks on two files of one name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def take(self) -> bool:
        """False when another process, or another lock of this one, has it. Raises OSError."""
        if self._file is not None:
            return True
        file = self._path.open("a+b")
        held = False
        try:
            held = _lock(file)
        finally:
            if not held:
                file.close()
        self._file = file if held else None
        return held

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _lock(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(file.fileno(), _BEYOND, os.SEEK_SET)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # how either system says that it is held
        return False
    return True
