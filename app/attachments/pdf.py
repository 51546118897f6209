"""The text of a PDF, page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

from app.attachments.refusal import UnreadableError

MOST_PAGES = 500
_DAMAGED = (
    PyPdfError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a reader of foreign files stumbles over; memory and time are limited from outside."""


def read_pdf(file: IO[bytes], told: Callable[[int, int], None]) -> str:
    """told: how many pages are read, of how many."""
    try:
        reader = PdfReader(file, strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("is encrypted: save it without a password first")
        count = len(reader.pages)
        if count > MOST_PAGES:
            raise UnreadableError(f"has {count:,} pages, {MOST_PAGES} can be read: split it")
        pages = []
        for number, page in enumerate(reader.pages, start=1):
            pages.append(page.extract_text().strip())
            told(number, count)
    except DependencyError as error:
        raise UnreadableError("is encrypted: save it without a password first") from error
    except _DAMAGED as error:
        raise UnreadableError("is damaged: it cannot be opened as a PDF") from error
    text = "\n\n".join(filter(None, pages))
    if not text:
        raise UnreadableError("has no text: it is scanned, or only pictures")
    return text
