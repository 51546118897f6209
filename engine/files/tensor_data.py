"""Tensors as they lie in a file: a format, a shape, and a view of the bytes. Pure numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.files.gguf_types import TENSOR_TYPES

_BLOCKS = {name: (block, size) for name, block, size in TENSOR_TYPES.values()}
FLOATS = ("F32", "F16", "BF16")
_Q8_BLOCK = 32


@dataclass(frozen=True, slots=True)
class TensorData:
    """dtype: name of a GGUF tensor type. shape: slowest dimension first. raw: bytes, often mapped.

    Mapped bytes are read when they are used; the file must stay as it is until then.
    """

    dtype: str
    shape: tuple[int, ...]
    raw: NDArray[np.uint8]

    def __post_init__(self) -> None:
        if self.raw.nbytes != tensor_bytes(self.dtype, self.shape):
            raise ValueError(f"{self.raw.nbytes} bytes for {self.dtype} {self.shape}")

    @property
    def rows(self) -> int:
        return math.prod(self.shape[:-1])

    def floats(self, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Rows start..stop as float32 [rows, width]; unquantised formats only."""
        width = self.shape[-1]
        step = row_bytes(self.dtype, width)
        stop = self.rows if stop is None else stop
        part = np.ascontiguousarray(self.raw[start * step : stop * step])
        if self.dtype == "F32":
            values: NDArray[np.float32] = part.view("<f4").astype(np.float32)
        elif self.dtype == "F16":
            values = part.view("<f2").astype(np.float32)
        elif self.dtype == "BF16":
            values = (part.view("<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            raise ValueError(f"{self.dtype} is not a plain number format")
        return values.reshape(stop - start, width)


def row_bytes(dtype: str, width: int) -> int:
    """Bytes of one row. ValueError when the format is unknown or the row is not whole blocks."""
    if dtype not in _BLOCKS:
        raise ValueError(f"unknown tensor format {dtype}")
    block, size = _BLOCKS[dtype]
    if width % block:
        raise ValueError(f"rows of {width} values are not whole blocks of {dtype}")
    return width // block * size


def tensor_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape[:-1]) * row_bytes(dtype, shape[-1])


def rows_of(data: TensorData, numbers: NDArray[np.int64]) -> TensorData:
    """Some rows of a matrix, in the format they are stored in; a copy."""
    raw = np.ascontiguousarray(data.raw.reshape(data.rows, -1)[numbers])
    return TensorData(data.dtype, (len(numbers), data.shape[-1]), raw.reshape(-1))


def as_f32(values: NDArray[np.float32]) -> TensorData:
    return TensorData("F32", values.shape, _bytes_of(values.astype("<f4")))


def as_i64(values: NDArray[np.int64]) -> TensorData:
    return TensorData("I64", values.shape, _bytes_of(values.astype("<i8")))


def as_q8_0(rows: NDArray[np.float32]) -> TensorData:
    """Blocks of 32 values as 8-bit numbers and one F16 scale; F16 where rows are not whole blocks.

    The same format as llama.cpp's, for programs that do not load it.
    """
    count, width = rows.shape
    if width % _Q8_BLOCK:
        return TensorData("F16", rows.shape, _bytes_of(rows.astype("<f2")))
    blocks = rows.astype(np.float32).reshape(-1, _Q8_BLOCK)
    scales = np.abs(blocks).max(axis=1, keepdims=True) / 127.0
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0.0)
    encoded = np.empty((len(blocks), 2 + _Q8_BLOCK), np.uint8)
    encoded[:, :2] = scales.astype("<f2").view(np.uint8)
    encoded[:, 2:] = np.rint(blocks * inverse).astype(np.int8).view(np.uint8)
    return TensorData("Q8_0", (count, width), encoded.reshape(-1))


def _bytes_of(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)
