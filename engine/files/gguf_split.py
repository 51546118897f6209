"""Models that are split into several files: where the parts are, and which of them are missing."""

from __future__ import annotations

import re
from pathlib import Path

from engine.data.errors import ModelFileError
from engine.files.gguf_header import Header

MOST_PARTS = 999
_SHOWN = 3
_NAME = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


def other_parts(path: Path, count: int) -> list[Path]:
    """The remaining files of a split model, of which this is the first of so many parts.

    ModelFileError when one is missing, or when the name does not say where the others are.
    """
    if count < 2:
        return []
    named = _NAME.match(path.name)
    if named is None or int(named["number"]) != 1:
        raise ModelFileError(
            f"{path.name} is part 1 of {count} of a split model, and llama.cpp knows the others by "
            f"their names: rename it to {path.stem}-00001-of-{count:05d}.gguf and the others alike"
        )
    numbers = range(2, min(int(named["count"]), MOST_PARTS) + 1)
    parts = [path.with_name(f"{named['stem']}-{n:05d}-of-{named['count']}.gguf") for n in numbers]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ModelFileError(
            f"{path.name} is split, and {_named(missing)} missing beside it; "
            "put all parts into one folder"
        )
    return parts


def follows_another(path: Path) -> bool:
    """Whether it is a later part of a split model whose first part is beside it, by the names."""
    named = _NAME.match(path.name)
    if named is None or int(named["number"]) == 1:
        return False
    return path.with_name(f"{named['stem']}-00001-of-{named['count']}.gguf").is_file()


def refuse_later_part(path: Path, header: Header) -> None:
    """ModelFileError for a part of a split model that is not its first: it names that one.

    The file itself says which part it is, counted from 0; where it does not, its name does.
    """
    named = _NAME.match(path.name)
    number = _count(header, "split.no") + 1
    if number == 1 and named is not None and "general.architecture" not in header.metadata:
        number = int(named["number"])
    if number < 2:
        return
    count = _count(header, "split.count") or (int(named["count"]) if named is not None else 0)
    which = f"{path.name} is part {number} of {count or 'several'} of a split model"
    if named is None:
        end = f", whose name ends in -00001-of-{count:05d}.gguf" if count else ""
        raise ModelFileError(f"{which}; load its part 1{end}")
    first = path.with_name(f"{named['stem']}-00001-of-{named['count']}.gguf")
    if first.is_file():
        raise ModelFileError(f"{which}; load its part 1 instead: {first.name}")
    raise ModelFileError(f"{which}, and its part 1, {first.name}, is missing beside it")


def _count(header: Header, key: str) -> int:
    """0 where the file has no such number, or an impossible one."""
    value = header.metadata.get(key, 0)
    return value if type(value) is int and 0 < value <= MOST_PARTS else 0


def _named(missing: list[str]) -> str:
    """The first few of them."""
    shown = ", ".join(missing[:_SHOWN])
    more = len(missing) - _SHOWN
    if more > 0:
        return f"{shown} and {more} more are"
    return f"{shown} {'is' if len(missing) == 1 else 'are'}"
