"""JSON files that Forerun keeps for itself: checked, written in one step, put aside when wrong."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from engine.data.documents import DocumentError, checked, parse_json
from engine.data.errors import RequestError
from engine.files.disk import aside_name, write_atomically

_LOG = logging.getLogger(__name__)
MISREAD = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)
"""What reading fields of content with the wrong shape raises."""

ContentT = TypeVar("ContentT")


@dataclass(frozen=True, slots=True)
class Stored(Generic[ContentT]):
    """problem: "" or one sentence on what was wrong with the file, and what was done with it."""

    content: ContentT
    problem: str = ""


def read_stored(
    path: Path, parse: Callable[[Any], ContentT], nothing: ContentT
) -> Stored[ContentT]:
    """`nothing` where there is no file, or where it was wrong and has been put aside.

    parse: content to what it stands for; for the wrong shape it raises one of MISREAD, or a
    RequestError. Half characters of earlier versions become U+FFFD.
    """
    try:
        text = path.read_bytes()
        content = parse_json(text, repair=True)
        return Stored(parse(content), _repaired(path, text, content))
    except (FileNotFoundError, NotADirectoryError):
        return Stored(nothing)
    except (OSError, RequestError, *MISREAD) as error:
        problem = put_aside(path, _reason(error))
        return Stored(nothing, problem)


def _repaired(path: Path, text: bytes, content: Any) -> str:
    """What was repaired is written back, so that it is told once."""
    try:
        parse_json(text)
    except DocumentError:
        problem = f"{path.name} held half a character, which is � now; nothing else is changed."
        _LOG.warning("%s", problem)
        try:
            write_stored(path, content)
        except OSError as error:
            _LOG.warning("%s cannot be written: %s", path, error.strerror or error)
        return problem
    return ""


def write_stored(path: Path, content: Any, indent: int | None = 1) -> None:
    """In one step. DocumentError, before anything is touched, when it could not be read again;
    OSError when it cannot be written."""
    text = json.dumps(checked(content_of(content)), indent=indent, ensure_ascii=False)
    write_atomically(path, text + "\n")


def content_of(content: Any) -> Any:
    """Tuples as the lists that JSON makes of them."""
    return json.loads(json.dumps(content))


def put_aside(path: Path, reason: str) -> str:
    """Under a name that says so, beside its place; one sentence on it, which is logged too."""
    aside = aside_name(path, "unreadable")
    try:
        path.replace(aside)
        problem = f"{path.name} could not be read ({reason}); it is kept as {aside}."
    except OSError as error:
        why = error.strerror or error
        problem = f"{path} could not be read ({reason}), nor be put aside ({why})."
    _LOG.warning("%s", problem)
    return problem


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error)
