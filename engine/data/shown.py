"""Text for showing: what a file, a name or an error says, made safe for a terminal and a page.

Model files, file names and error texts come from anywhere. A terminal obeys escape sequences, a
page slows down under a name of a megabyte, and neither can be sent half a character.
"""

from __future__ import annotations

import re

LINE = 2_000
NAME = 120
"""Longest of a line, and of a name, in characters."""

_UNKNOWN = "\ufffd"
_BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
# Control characters, lone surrogates, and marks that turn the direction of what follows.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufeff]")
_UNSAFE_IN_LINES = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufeff]"
)


def shown(text: str, longest: int = LINE) -> str:
    """As one line of at most `longest` characters; of longer text its beginning and its end."""
    if len(text) > longest:
        end = longest // 3
        text = f"{text[: longest - end - 1]}…{text[-end:]}"
    if text.isprintable():
        return text
    return _UNSAFE.sub(_UNKNOWN, _BREAKS.sub(" ", text))


def shown_name(text: str) -> str:
    """A name, without blanks around it."""
    return shown(text, NAME).strip()


def shown_lines(text: str) -> str:
    """Text of several lines as it is, but for what a terminal would obey."""
    return text if text.isprintable() else _UNSAFE_IN_LINES.sub(_UNKNOWN, text)
