"""Small file helpers: atomic writes, so that a crash never leaves half a file, and sizes."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil

_RESERVE = 200_000_000  # bytes that are left free on a disk for everything else


def write_atomically(path: Path, text: str) -> None:
    """Replace the file's content in one step, in a folder that is made if need be. OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, (text,))


def replace_atomically(path: Path, pieces: Iterable[str]) -> None:
    """The same in a folder that is there, with a text that need not be in memory whole. The file is
    for the user alone."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def user_path(written: str | Path) -> Path:
    """A path as the user wrote it: ~ is a home folder, where there is one of that name."""
    return Path(os.path.expanduser(written))


def aside_name(path: Path, why: str) -> Path:
    """A name beside the file that nothing has, for what must make room and is not thrown away."""
    for number in itertools.count(1):
        mark = why if number == 1 else f"{why}-{number}"
        aside = path.with_name(f"{path.stem}.{mark}{path.suffix}")
        if not os.path.lexists(aside):
            return aside
    raise AssertionError("unreachable: there are enough numbers")


def disk_free(folder: Path) -> int:
    """Bytes free on the volume of a folder, which need not exist yet."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    return shutil.disk_usage(existing).free


def disk_room(folder: Path) -> int:
    """Bytes that may be written there: what is free but for a reserve."""
    return disk_free(folder) - _RESERVE


def has_ended(owner: str) -> bool:
    """Whether that is the id of a process which no longer runs: what it left may be removed."""
    is_number = owner.isascii() and owner.isdigit() and len(owner) < 10
    return is_number and not psutil.pid_exists(int(owner))


def size_text(count: int) -> str:
    """Bytes in decimal units, as download pages print them."""
    if count >= 1_000_000_000:
        return f"{count / 1e9:.2f} GB"
    return f"{count / 1e6:.0f} MB"


def tree_bytes(folder: Path) -> int:
    """Bytes of the files below the folder; files that vanish meanwhile do not count."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(Path(root) / name).st_size
            except FileNotFoundError:
                continue
    return total
