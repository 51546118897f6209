"""Reads and writes safetensors files: a JSON header and raw numbers, mapped, never executed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from engine.data.documents import DocumentError, parse_json
from engine.data.errors import ModelFileError
from engine.files.foreign_file import foreign_file
from engine.files.tensor_data import TensorData

MAX_HEADER = 100_000_000  # the format's own limit
_DTYPES = {
    "F64": ("F64", 8), "F32": ("F32", 4), "F16": ("F16", 2), "BF16": ("BF16", 2), "I64": ("I64", 8),
    "I32": ("I32", 4), "I16": ("I16", 2), "I8": ("I8", 1), "U8": ("I8", 1), "BOOL": ("I8", 1),
}  # fmt: skip
"""The format's name of a number type to ours and its bytes."""
_WRITTEN = {"float32": "F32", "float16": "F16", "int64": "I64", "bool": "BOOL"}


def read_safetensors(path: Path) -> dict[str, TensorData]:
    """Every tensor of a known number type. Raises ModelFileError: missing or damaged."""
    with foreign_file(path):
        return _read(path)


def _read(path: Path) -> dict[str, TensorData]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            raise ModelFileError(f"{path.name} is damaged: its header does not fit into it")
        content = file.read(length)
    try:
        header = parse_json(content)
    except DocumentError as error:
        raise ModelFileError(f"{path.name} is damaged: its header {error}") from error
    data = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
    if not isinstance(header, dict):
        raise ModelFileError(f"{path.name} is damaged: its header is not a table")
    data = data[8 + length :]
    return {
        name: tensor
        for name, entry in header.items()
        if name != "__metadata__" and (tensor := _tensor(path.name, name, entry, data)) is not None
    }


def write_safetensors(path: Path, tensors: Mapping[str, NDArray[np.generic]]) -> None:
    """Writes beside `path` first. Raises ModelFileError when the disk refuses."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, values in tensors.items():
        header[name] = {
            "dtype": _WRITTEN[str(values.dtype)],
            "shape": list(values.shape),
            "data_offsets": [offset, offset + values.nbytes],
        }
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with unfinished.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for values in tensors.values():
                file.write(np.ascontiguousarray(values).data)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise ModelFileError(f"{path} cannot be written: {reason}") from error


def _tensor(file: str, name: str, entry: Any, data: Any) -> TensorData | None:
    """None for number types that nothing here reads (FP8 and the like)."""
    damaged = ModelFileError(
        f"{file} is damaged: the tensor {name[:80]!r} is not described rightly"
    )
    if not isinstance(entry, dict):
        raise damaged
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise damaged
    start, stop = offsets
    if not start <= stop <= len(data):
        raise damaged
    known = _DTYPES.get(str(entry.get("dtype")))
    if known is None:
        return None
    dtype, width = known
    if stop - start != math.prod(shape) * width:
        raise damaged
    return TensorData(dtype, tuple(shape) or (1,), data[start:stop])


def _are_counts(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 1 << 48
        for item in value
    )
