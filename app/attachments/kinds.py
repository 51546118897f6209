"""What a file is, by what is in it: a name may say anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Literal

from app.attachments.pdf import read_pdf
from app.attachments.plain_text import read_text
from app.attachments.refusal import UnreadableError
from app.attachments.word import read_word

Kind = Literal["text", "pdf", "docx"]
LONGEST_TEXT = 2_000_000
"""Characters: more than the largest context can hold."""
_HEAD = 1024
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_IMAGE_BRANDS = (b"avif", b"heic", b"heix", b"mif1")
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"


def read_document(file: IO[bytes], told: Callable[[int, int], None]) -> tuple[Kind, str]:
    """UnreadableError says why not. told: pages that are read, of how many."""
    head = file.read(_HEAD)
    file.seek(0)
    kind = _kind(head)
    if kind == "pdf":
        text = read_pdf(file, told)
    elif kind == "docx":
        text = read_word(file)
    else:
        text = read_text(file.read())
    if not text.strip():
        raise UnreadableError("is empty")
    if len(text) > LONGEST_TEXT:
        raise UnreadableError(f"has {len(text):,} characters, {LONGEST_TEXT:,} can be read")
    return kind, text


def _kind(head: bytes) -> Kind:
    is_webp = head.startswith(b"RIFF") and head[8:12] == b"WEBP"
    is_boxed = head[4:8] == b"ftyp" and head[8:12] in _IMAGE_BRANDS
    if is_webp or is_boxed or head.startswith(_IMAGES):
        raise UnreadableError("is an image: images cannot be read yet")
    if head.startswith(_OLD_OFFICE):
        raise UnreadableError("is an old or encrypted Office file: save it as .docx or PDF")
    if b"%PDF-" in head:
        return "pdf"
    return "docx" if head.startswith(b"PK\x03\x04") else "text"
