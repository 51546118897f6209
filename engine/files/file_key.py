"""What tells that a file is still the one that an answer was about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.data.errors import ModelFileError


@dataclass(frozen=True, slots=True)
class FileKey:
    """What a cached answer about a file depends on. modified: nanoseconds."""

    path: Path
    bytes: int
    modified: int


def file_key(path: Path) -> FileKey:
    try:
        status = path.stat()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelFileError(f"{path} cannot be read: {reason}") from error
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file")
    return FileKey(path.absolute(), status.st_size, status.st_mtime_ns)
