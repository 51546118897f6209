"""Texts in a PNG: chunks are read by their lengths and checksums; the picture is never decoded."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from engine.data.errors import BadOptionError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST_CHUNKS = 10_000
_AROUND = 12
"""Bytes of a chunk besides its data: length, type, checksum."""


def texts(content: bytes, name: str) -> dict[str, bytes]:
    """tEXt chunks by keyword, the last of several. BadOptionError for a damaged file."""
    found = {}
    for kind, data in _chunks(content, name):
        if kind == b"tEXt":
            keyword, separator, text = data.partition(b"\0")
            if separator:
                found[keyword.decode("latin-1")] = text
    return found


def _chunks(content: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Type and data of each, up to the end mark."""
    at = len(SIGNATURE)
    for _ in range(_MOST_CHUNKS):
        length = int.from_bytes(content[at : at + 4], "big")
        kind = content[at + 4 : at + 8]
        if len(content) - at < _AROUND + length:
            raise BadOptionError(f"{name} is a damaged PNG: it ends too early")
        data = content[at + 8 : at + 8 + length]
        checksum = int.from_bytes(content[at + 8 + length : at + _AROUND + length], "big")
        if zlib.crc32(kind + data) != checksum:
            raise BadOptionError(f"{name} is a damaged PNG: a checksum is wrong")
        yield kind, data
        if kind == b"IEND":
            return
        at += _AROUND + length
    raise BadOptionError(f"{name} is no picture: it has more than {_MOST_CHUNKS:,} parts")
