"""What a file of chats holds: the records of JSON, JSONL, or of every such file in a zip.

All sizes are checked while reading: what an archive says of itself is not believed.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from engine.data.documents import DocumentError, decoded, numbered_lines, parse_json
from engine.data.errors import BadOptionError
from engine.data.shown import shown

LARGEST_FILE = 150_000_000
"""Bytes of text to read, of one file or of all in an archive."""
MOST_FILES = 10_000
_MOST_TABLES, _MOST_VALUES = 10_000_000, 40_000_000
"""Lists and tables, and values, of one file: each takes many times its bytes in memory."""

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_END, _END_SIZE, _LONGEST_COMMENT = b"PK\x05\x06", 22, 65_535
_LOCATOR, _LOCATOR_SIZE = b"PK\x06\x07", 20
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENDINGS = (".json", ".jsonl")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or one in an archive. problem: why it has no records, "" when it was read."""

    name: str
    records: list[Any]
    problem: str = ""


def parts_of(file: IO[bytes], name: str) -> Iterator[Part]:
    """BadOptionError when the whole cannot be read."""
    start = file.read(4)
    file.seek(0)
    if start in _ZIP:
        yield from _parts_of_zip(file, name)
        return
    content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise BadOptionError(f"{name} has more than {LARGEST_FILE:,} bytes, which is the limit")
    try:
        yield Part(name, records_of(content))
    except DocumentError as error:
        raise BadOptionError(
            f"{name} {error}; chats come as JSON, as JSONL, or as a zip of such files"
        ) from error


def records_of(content: bytes) -> list[Any]:
    """Of JSON: the items of its list, or itself. Of JSONL: its lines. DocumentError."""
    text = decoded(content)
    tables = text.count("[") + text.count("{")
    if tables > _MOST_TABLES or text.count(",") > _MOST_VALUES:
        raise DocumentError("holds more values than fit into memory; export fewer chats at a time")
    try:
        whole = parse_json(text, repair=True)
    except DocumentError:
        if not _has_lines(text):
            raise
        return _lines(text)
    return whole if isinstance(whole, list) else [whole]


def _has_lines(text: str) -> bool:
    """Whether the first of several lines is a whole record."""
    lines = numbered_lines(text)
    first, second = next(lines, None), next(lines, None)
    if first is None or second is None:
        return False
    try:
        return isinstance(parse_json(first[1], repair=True), dict)
    except DocumentError:
        return False


def _lines(text: str) -> list[Any]:
    records = []
    for number, line in numbered_lines(text):
        try:
            records.append(parse_json(line, repair=True))
        except DocumentError as error:
            raise DocumentError(f"line {number} {error}") from error
    return records


def _parts_of_zip(file: IO[bytes], name: str) -> Iterator[Part]:
    check_directory(file, name)
    left = LARGEST_FILE
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.is_dir() or not entry.filename.lower().endswith(_ENDINGS):
                    continue
                content = unpacked(archive, entry, left)
                if content is None:
                    reason = "it is encrypted, or packed in a way that is not read"
                    yield Part(shown(entry.filename, 80), [], reason)
                    continue
                left -= len(content)
                if left < 0:
                    raise BadOptionError(
                        f"{name} unpacks to more than {LARGEST_FILE:,} bytes, which is the limit"
                    )
                yield _part(entry.filename, content)
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError) as error:
        raise BadOptionError(f"{name} is a damaged zip archive: {error}") from error


def _part(filename: str, content: bytes) -> Part:
    try:
        return Part(shown(filename, 80), records_of(content))
    except DocumentError as error:
        return Part(shown(filename, 80), [], f"it {error}")


def unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> bytes | None:
    """One byte more than may be, at most. None when it cannot be unpacked here."""
    if entry.flag_bits & 1 or entry.compress_type not in _READABLE:
        return None
    chunks, size = [], 0
    with archive.open(entry) as packed:
        while size <= most and (chunk := packed.read(_CHUNK)):
            chunks.append(chunk)
            size += len(chunk)
    return b"".join(chunks)


def check_directory(file: IO[bytes], name: str) -> None:
    """The list of files is read in one piece, so how many it names is looked at before."""
    size = file.seek(0, 2)
    start = max(0, size - _END_SIZE - _LONGEST_COMMENT - _LOCATOR_SIZE)
    file.seek(start)
    tail = file.read()
    file.seek(0)
    at = len(tail) - _END_SIZE
    if at < 0 or tail[at : at + 4] != _END or tail[-2:] != b"\0\0":
        at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_SIZE:
        raise BadOptionError(f"{name} is a damaged zip archive: it has no list of its files")
    count = int.from_bytes(tail[at + 10 : at + 12], "little")
    length = int.from_bytes(tail[at + 12 : at + 16], "little")
    is_large = tail[max(0, at - _LOCATOR_SIZE) : at].startswith(_LOCATOR)
    if is_large or count > MOST_FILES or length > MOST_FILES * 400:
        raise BadOptionError(
            f"{name} is an archive of more than {MOST_FILES:,} files or 4 GB: take the JSON out of"
            " it and import that"
        )
