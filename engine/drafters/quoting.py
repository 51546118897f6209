"""Quotation marks in drafter expressions: model:"C:\\dir (1), x.gguf".

Between them every character stands for itself, backslashes too; a mark is written twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.data.errors import BadOptionError

MARK = '"'
_NEED_MARKS = frozenset('(),"')


def quoted(argument: str) -> str:
    """As it is written in an expression: with marks where it would be read wrongly without."""
    if argument == argument.strip() and not _NEED_MARKS & set(argument):
        return argument
    return f"{MARK}{argument.replace(MARK, MARK * 2)}{MARK}"


def unquoted(text: str) -> str:
    """What an argument that may stand in marks says. BadOptionError."""
    if not text.startswith(MARK):
        return text
    end = _closing(text, 0)
    if text[end + 1 :].strip():
        raise BadOptionError(f"{text[end + 1 :].strip()!r} follows a quoted argument; separate it")
    return text[1:end].replace(MARK * 2, MARK)


def outside(text: str) -> Iterator[tuple[int, str]]:
    """Places and characters of an expression that are not in marks. BadOptionError.

    Marks open behind a colon only: elsewhere they are part of an argument without any.
    """
    index = 0
    while index < len(text):
        if text[index] == MARK and text[max(0, index - 1)] == ":":
            index = _closing(text, index)
        else:
            yield index, text[index]
        index += 1


def _closing(text: str, start: int) -> int:
    index = start + 1
    while True:
        index = text.find(MARK, index)
        if index < 0:
            raise BadOptionError("a quotation mark in the drafter expression is not closed")
        if text[index + 1 : index + 2] != MARK:
            return index
        index += 2
