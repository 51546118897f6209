"""Reads a GGUF file's header: metadata and tensor descriptions, never tensor data.

Every count and length is checked against the file's size before anything is allocated or
skipped, so a damaged or hostile file costs one ModelFileError. Nothing here knows what the keys
mean. Format: the GGUF specification, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from engine.data.errors import ModelFileError
from engine.files.foreign_file import foreign_file
from engine.files.gguf_types import ARRAY, SCALARS, STRING, TENSOR_TYPES

Value = int | float | bool | str | tuple[int | float | bool, ...] | tuple[bytes, ...]

MAGIC = b"GGUF"
MAX_HEADER = 1 << 29
MAX_STRING = 1 << 26
MAX_ITEMS = 1 << 23
MAX_TENSOR_NAME = 1 << 10
MAX_DIMENSIONS = 4
SHORT_ARRAY = 4096
"""Numeric arrays up to this length are kept, longer ones only when asked for."""

_CHUNK = 1 << 22
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Tensor:
    """shape: fastest dimension first. type: key of gguf_types.TENSOR_TYPES. bytes: of its data.

    start: where its data lies in the file.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    elements: int
    bytes: int
    start: int


@dataclass(frozen=True, slots=True)
class Header:
    """lengths: element count of every array, including those whose content was not kept."""

    metadata: dict[str, Value]
    lengths: dict[str, int]
    tensors: tuple[Tensor, ...]
    file_bytes: int


def read_header(path: Path, keep: Collection[str] = ()) -> Header:
    """Read the header; keep: keys of long arrays whose content is wanted.

    Raises ModelFileError (missing, not GGUF, truncated, damaged) with one sentence.
    """
    with foreign_file(path), path.open("rb") as file:
        return _HeaderReader(file, path).read(frozenset(keep))


class _HeaderReader:
    """A window of bytes that grows from the start of the file, and a position in it."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._name = path.name
        self._size = file.seek(0, 2)
        file.seek(0)
        self._data = b""
        self._position = 0

    def read(self, keep: frozenset[str]) -> Header:
        tensor_count, key_count = self._counts()
        metadata: dict[str, Value] = {}
        lengths: dict[str, int] = {}
        for _ in range(key_count):
            key = self._text()
            if key in metadata or key in lengths:
                raise self._damaged(f"the key {key[:80]!r} appears twice")
            self._read_value(key, metadata, lengths, keep)
        tensors = self._tensors(tensor_count, metadata.get("general.alignment", 32))
        return Header(metadata, lengths, tensors, self._size)

    def _counts(self) -> tuple[int, int]:
        if self._size == 0:
            raise ModelFileError(f"{self._name} is empty")
        if self._size < len(MAGIC) or self._take(len(MAGIC)) != MAGIC:
            raise ModelFileError(f"{self._name} is not a GGUF file")
        version = self._u32()
        if version not in (2, 3):
            if version & 0xFFFF == 0:
                raise ModelFileError(
                    f"{self._name} is a big-endian GGUF file, which cannot be read"
                )
            raise ModelFileError(f"{self._name} has GGUF version {version}; 2 and 3 can be read")
        tensor_count, key_count = self._u64(), self._u64()
        self._check_room(tensor_count, 24, "tensors")
        self._check_room(key_count, 13, "metadata keys")
        return tensor_count, key_count

    def _read_value(
        self,
        key: str,
        metadata: dict[str, Value],
        lengths: dict[str, int],
        keep: frozenset[str],
    ) -> None:
        kind = self._u32()
        if kind == STRING:
            metadata[key] = self._text()
        elif kind == ARRAY:
            lengths[key], content = self._array(key, keep)
            if content is not None:
                metadata[key] = content
        else:
            metadata[key] = self._scalar(key, kind)

    def _scalar(self, key: str, kind: int) -> int | float | bool:
        layout = SCALARS.get(kind)
        if layout is None:
            raise self._damaged(f"the key {key[:80]!r} has the unknown type {kind}")
        value: int | float | bool = layout.unpack(self._take(layout.size))[0]
        return value

    def _array(self, key: str, keep: frozenset[str]) -> tuple[int, Value | None]:
        kind, count = self._u32(), self._u64()
        if kind == ARRAY:
            raise self._damaged(f"the key {key[:80]!r} holds nested arrays")
        if kind == STRING:
            self._check_room(count, 8, f"strings under {key[:80]!r}")
            return count, self._strings(count, key in keep)
        layout = SCALARS.get(kind)
        if layout is None:
            raise self._damaged(f"the key {key[:80]!r} is an array of the unknown type {kind}")
        self._check_room(count, layout.size, f"values under {key[:80]!r}")
        if key not in keep and count > SHORT_ARRAY:
            self._need(count * layout.size)
            self._position += count * layout.size
            return count, None
        content = self._take(count * layout.size)
        return count, struct.unpack(f"<{count}{layout.format[-1:]}", content)

    def _strings(self, count: int, wanted: bool) -> tuple[bytes, ...] | None:
        """The hot loop: up to some 300,000 strings, kept or skipped."""
        found: list[bytes] = []
        unpack = _U64.unpack_from
        data, position, end = self._data, self._position, len(self._data)
        for _ in range(count):
            start = position + 8
            stop = start + unpack(data, position)[0] if start <= end else end + 1
            if stop > end:
                self._position = position
                self._need(8 + self._string_length())
                data, end = self._data, len(self._data)
                stop = start + unpack(data, position)[0]
            if wanted:
                found.append(data[start:stop])
            position = stop
        self._position = position
        return tuple(found) if wanted else None

    def _string_length(self) -> int:
        """Length of the string at the position, checked; the position stays."""
        self._need(8)
        length: int = _U64.unpack_from(self._data, self._position)[0]
        if length > MAX_STRING or length > self._size - self._position - 8:
            raise self._damaged(f"a text of {length:,} bytes does not fit into the file")
        return length

    def _tensors(self, count: int, alignment: Value) -> tuple[Tensor, ...]:
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise self._damaged(f"the alignment {alignment!r} is not a power of two")
        described = [self._tensor() for _ in range(count)]
        start = -(-self._position // alignment) * alignment
        tensors = tuple(replace(one, start=start + one.start) for one in described)
        if len({tensor.name for tensor in tensors}) != count:
            raise self._damaged("a tensor appears twice")
        needed = max((tensor.start + tensor.bytes for tensor in tensors), default=0)
        if needed > self._size:
            raise ModelFileError(
                f"{self._name} is truncated: {self._size:,} of {needed:,} bytes; fetch it again"
            )
        return tensors

    def _tensor(self) -> Tensor:
        """One tensor's description; start is still relative to the first tensor's data."""
        name = self._text(MAX_TENSOR_NAME)
        dimensions = self._u32()
        if dimensions > MAX_DIMENSIONS:
            raise self._damaged(f"the tensor {name[:80]!r} has {dimensions:,} dimensions")
        shape = tuple(self._u64() for _ in range(dimensions))
        kind, offset = self._u32(), self._u64()
        known = TENSOR_TYPES.get(kind)
        if known is None:
            raise self._damaged(f"the tensor {name[:80]!r} has the unknown type {kind}")
        elements = 1
        for length in shape:
            elements *= length
        _, block, block_bytes = known
        if shape and shape[0] % block:
            raise self._damaged(f"the rows of tensor {name[:80]!r} are not whole blocks")
        return Tensor(name, shape, kind, elements, elements // block * block_bytes, offset)

    def _text(self, limit: int = MAX_STRING) -> str:
        length = self._string_length()
        if length > limit:
            raise self._damaged(f"a name is {length:,} bytes long")
        self._position += 8
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged("a text is not UTF-8") from error

    def _u32(self) -> int:
        value: int = _U32.unpack(self._take(4))[0]
        return value

    def _u64(self) -> int:
        value: int = _U64.unpack(self._take(8))[0]
        return value

    def _take(self, count: int) -> bytes:
        self._need(count)
        start = self._position
        self._position += count
        return self._data[start : self._position]

    def _need(self, count: int) -> None:
        """Make sure that `count` bytes from the position on are in the window."""
        end = self._position + count
        if end <= len(self._data):
            return
        if end > self._size:
            raise self._damaged("it ends inside its header")
        if end > MAX_HEADER:
            raise self._damaged("its header is larger than any model's")
        self._data += self._file.read(max(end - len(self._data), _CHUNK, len(self._data)))
        if end > len(self._data):
            raise self._damaged("it became shorter while it was read")

    def _check_room(self, count: int, least: int, what: str) -> None:
        """Refuse a count whose items, `least` bytes each, cannot be in the rest of the file."""
        if count > MAX_ITEMS or count * least > self._size - self._position:
            raise self._damaged(f"{count:,} {what} do not fit into the file")

    def _damaged(self, detail: str) -> ModelFileError:
        return ModelFileError(f"{self._name} is damaged: {detail}")
