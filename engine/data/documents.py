"""JSON, TOML and text from outside: decoded, parsed, and checked before anything uses them.

Every parser's own way to fail ends here: byte order marks, other encodings, nesting that exhausts
the stack, numbers that fit nowhere, half characters. What passes can be stored and sent as it is.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import tomllib
from collections.abc import Iterator
from typing import Any, TypeVar

ContentT = TypeVar("ContentT")
MAX_DEPTH = 64
_MOST_DOTS = 1_000  # in a line of TOML
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_UNSOUND = re.compile("[\x00\ud800-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_HIDDEN = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_OTHER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


class DocumentError(ValueError):
    """What is wrong, worded to follow the document's name."""


def sound(text: str) -> str:
    """The text with U+FFFD for what can be neither stored nor sent: half a surrogate pair, NUL."""
    return text if text.isprintable() else _UNSOUND.sub("\ufffd", text)


def is_sound(text: str) -> bool:
    return text.isprintable() or _UNSOUND.search(text) is None


def decoded(content: bytes) -> str:
    """UTF-8 with or without a byte order mark. DocumentError for any other encoding."""
    for mark, name in _OTHER_MARKS:
        if content.startswith(mark):
            raise DocumentError(f"is {name} text; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError("is not UTF-8 text; save it as UTF-8") from error


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1.

    Only line ends end a line: JSON may hold the other separators of Unicode inside a string.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def parse_json(text: str | bytes, *, repair: bool = False) -> Any:
    """repair: half characters become U+FFFD, as in what was stored before they were refused.

    DocumentError otherwise, and for anything else that is not JSON, too deep or out of range.
    """
    text = decoded(text) if isinstance(text, bytes) else text
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except DocumentError:
        raise
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise DocumentError(f"is not JSON: {error}") from error
    return checked(content, repair=repair)


def parse_toml(text: str | bytes) -> dict[str, Any]:
    """DocumentError: not TOML, too deep, or out of range."""
    text = decoded(text) if isinstance(text, bytes) else text
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise _too_deep()  # the parser's time grows with the square of a dotted key's length
    try:
        content = tomllib.loads(text)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise DocumentError(f"is not valid TOML: {error}") from error
    table: dict[str, Any] = checked(content)
    return table


def checked(value: Any, *, repair: bool = False, depth: int = MAX_DEPTH) -> Any:
    """The same content; DocumentError when it is too deep, or holds what cannot be stored."""
    if isinstance(value, str):
        if is_sound(value):
            return value
        if not repair:
            raise DocumentError("holds half a character or NUL; write it again without")
        return sound(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise DocumentError("holds a number that is not finite")
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        raise DocumentError("holds a number of more than 64 bits")
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        raise _too_deep()
    if isinstance(value, list):
        return [checked(item, repair=repair, depth=depth - 1) for item in value]
    return {
        checked(key, repair=repair): checked(item, repair=repair, depth=depth - 1)
        for key, item in value.items()
    }


def json_text(content: Any, indent: int | None = None) -> str:
    """JSON for other programs, readable, and with nothing that a terminal would obey."""
    text = json.dumps(sendable(content), indent=indent, ensure_ascii=False)
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def compact_json(content: Any) -> str:
    """JSON in few bytes, of whatever is to be sent."""
    return json.dumps(fit_to_send(content), separators=(",", ":"), ensure_ascii=False)


def fit_to_send(content: ContentT) -> ContentT:
    """The content itself where JSON can carry it, as nearly always, else what is sendable of it."""
    try:
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        sent: ContentT = sendable(content)
        return sent
    return content


def sendable(value: Any) -> Any:
    """The same content with what JSON does not have made fit for it: null for numbers that are not
    finite or fit nowhere, U+FFFD for half characters, lists for tuples."""
    if isinstance(value, str):
        return value if value.isprintable() else _SURROGATES.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if _SMALLEST <= value <= _LARGEST else None
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    if isinstance(value, dict):
        return {sendable(str(key)): sendable(item) for key, item in value.items()}
    return value


def _refuse_constant(name: str) -> float:
    raise DocumentError(f"holds {name}, which is not JSON")


def _too_deep() -> DocumentError:
    return DocumentError(f"is nested more than {MAX_DEPTH} levels deep")
