"""Nobody else on this machine reads the user's chats, settings and logs: files 0600, folders 0700.

Windows gives a user's own folders to that user alone, so nothing is done there.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.data.folders import DataFolder

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOG = logging.getLogger(__name__)


def _present_mask() -> int:
    """-1 where there is none, as subprocess has it."""
    if sys.platform == "win32":
        return -1
    mask = os.umask(_OTHERS)
    os.umask(mask)
    return mask


USUAL_MASK = _present_mask()
"""As the user has set it: for processes that write what other programs share."""


def keep_private() -> None:
    """What this process and those it starts create from now on is the user's alone."""
    if sys.platform != "win32":
        os.umask(_OTHERS)


def protect(folder: DataFolder) -> None:
    """Takes what is there from everybody else. Links are left alone: what they lead to is not ours.

    A folder that holds other things as well keeps its own mode: only what is ours is closed.
    """
    if sys.platform == "win32" or not folder.root.is_dir():
        return
    entries = list(folder.root.iterdir())
    ours = [entry for entry in entries if folder.owns(entry.name)]
    if len(ours) == len(entries):
        _close(folder.root)
    for entry in ours:
        for path in _below(entry):
            _close(path)


def _below(entry: Path) -> Iterator[Path]:
    if entry.is_symlink():
        return
    yield entry
    for parent, folders, files in os.walk(entry):
        for name in (*folders, *files):
            path = Path(parent, name)
            if not path.is_symlink():
                yield path


def _close(path: Path) -> None:
    """Something that is not ours, or went away meanwhile, must not keep the page from starting."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
    except OSError as error:
        _LOG.warning("%s stays readable for others: %s", path, error.strerror or error)
