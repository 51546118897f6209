"""Tensors as they lie in a file: a format, a shape, and a view of the bytes. Pure numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.models.gguf_types import TENSOR_TYPES

_BLOCKS = {name: (block, size) for name, block, size in TENSOR_TYPES.values()}
FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class TensorData:
    """kind: name of a GGUF tensor type. shape: slowest dimension first. raw: bytes, often mapped.

    Mapped bytes are read when they are used; the file must stay as it is until then.
    """

    kind: str
    shape: tuple[int, ...]
    raw: NDArray[np.uint8]

    def __post_init__(self) -> None:
        if self.raw.nbytes != tensor_bytes(self.kind, self.shape):
            raise ValueError(f"{self.raw.nbytes} bytes for {self.kind} {self.shape}")

    @property
    def rows(self) -> int:
        return math.prod(self.shape[:-1])

    def floats(self, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Rows start..stop as float32 [rows, width]; unquantised formats only."""
        width = self.shape[-1]
        step = row_bytes(self.kind, width)
        stop = self.rows if stop is None else stop
        part = np.ascontiguousarray(self.raw[start * step : stop * step])
        if self.kind == "F32":
            values: NDArray[np.float32] = part.view("<f4").astype(np.float32)
        elif self.kind == "F16":
            values = part.view("<f2").astype(np.float32)
        elif self.kind == "BF16":
            values = (part.view("<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            raise ValueError(f"{self.kind} is not a plain number format")
        return values.reshape(stop - start, width)


def row_bytes(kind: str, width: int) -> int:
    """Bytes of one row. ValueError when the format is unknown or the row is not whole blocks."""
    if kind not in _BLOCKS:
        raise ValueError(f"unknown tensor format {kind}")
    block, size = _BLOCKS[kind]
    if width % block:
        raise ValueError(f"rows of {width} values are not whole blocks of {kind}")
    return width // block * size


def tensor_bytes(kind: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape[:-1]) * row_bytes(kind, shape[-1])
