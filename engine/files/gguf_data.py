"""Tensor data of GGUF files: mapped for reading, and a small writer."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from engine.data.errors import ModelFileError
from engine.files.foreign_file import foreign_file
from engine.files.gguf_header import MAGIC, read_header
from engine.files.gguf_types import ARRAY, STRING, TENSOR_TYPES
from engine.files.tensor_data import TensorData

MetadataValue = bool | int | float | str | Sequence[int]

_VERSION = 3
_ALIGNMENT = 32
_U32, _I32, _F32, _BOOL = 4, 5, 6, 7
_TYPE_NUMBERS = {name: number for number, (name, _, _) in TENSOR_TYPES.items()}


def read_tensors(path: Path) -> dict[str, TensorData]:
    """All tensors of one GGUF file, mapped. Raises ModelFileError."""
    with foreign_file(path):
        header = read_header(path)
        data = np.memmap(path, np.uint8, "r")
        return {
            tensor.name: TensorData(
                TENSOR_TYPES[tensor.type][0],
                tuple(reversed(tensor.shape)) or (1,),
                data[tensor.start : tensor.start + tensor.bytes],
            )
            for tensor in header.tensors
        }


def write_gguf(
    path: Path, metadata: Mapping[str, MetadataValue], tensors: Mapping[str, TensorData]
) -> None:
    """Writes beside `path` first, so that a failure leaves no half file.

    metadata: must hold general.architecture. Raises ModelFileError when the disk refuses.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with unfinished.open("wb") as file:
            _write(file, metadata, tensors)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise ModelFileError(f"{path} cannot be written: {reason}") from error


def _write(
    file: BinaryIO, metadata: Mapping[str, MetadataValue], tensors: Mapping[str, TensorData]
) -> None:
    file.write(MAGIC + struct.pack("<IQQ", _VERSION, len(tensors), len(metadata)))
    for key, value in metadata.items():
        file.write(_text(key) + _value(value))
    offset = 0
    for name, tensor in tensors.items():
        shape = tuple(reversed(tensor.shape))
        file.write(_text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
        file.write(struct.pack("<IQ", _TYPE_NUMBERS[tensor.dtype], offset))
        offset += _padded(tensor.raw.nbytes)
    file.write(b"\0" * (_padded(file.tell()) - file.tell()))
    for tensor in tensors.values():
        size = tensor.raw.nbytes
        file.write(np.ascontiguousarray(tensor.raw).data)
        file.write(b"\0" * (_padded(size) - size))


def _value(value: MetadataValue) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _U32, value)
    if isinstance(value, float):
        return struct.pack("<If", _F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _text(value)
    return struct.pack(f"<IIQ{len(value)}i", ARRAY, _I32, len(value), *value)


def _text(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
