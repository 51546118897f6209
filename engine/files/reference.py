"""Paths as references: text that names the same file again, whatever bytes its name is made of.

A file name need not be UTF-8, and may hold control characters. In a reference such bytes, and then
the percent sign too, are written as %XX, as in addresses; other names stay as they are.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote_to_bytes

from engine.data.shown import shown
from engine.files.disk import user_path


def reference_of(path: Path) -> str:
    """Readable, and safe to show, store and send."""
    text = str(path)
    if all(map(_is_plain, text)):
        return text
    return "".join(
        one
        if _is_plain(one) and one != "%"
        else "".join(f"%{byte:02X}" for byte in os.fsencode(one))
        for one in text
    )


def file_of(reference: str) -> Path:
    """The path of that very name, where there is one, else the one it is written for."""
    path = user_path(reference)
    if "%" in reference and not os.path.lexists(path):
        meant = Path(os.fsdecode(unquote_to_bytes(os.fsencode(path))))
        if "\0" not in str(meant) and os.path.lexists(meant):
            return meant
    return path


def _is_plain(character: str) -> bool:
    return shown(character) == character
