"""Text and code to characters."""

from __future__ import annotations

import codecs
import re

from app.attachments.refusal import UnreadableError

_MARKED = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: it begins with that mark
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_NOT_TEXT = "is neither text nor a PDF nor a Word file (.docx): nothing else can be read"


def read_text(data: bytes) -> str:
    """By its byte order mark; else UTF-8, and what is not that as Windows-1252."""
    encoding = next((name for mark, name in _MARKED if data.startswith(mark)), None)
    try:
        text = _unmarked(data) if encoding is None else data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableError(_NOT_TEXT) from error
    if _NO_TEXT.search(text):
        raise UnreadableError(_NOT_TEXT)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unmarked(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252")
