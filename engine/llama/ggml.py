"""Small tensor graphs on llama.cpp's own CPU backend, with quantised weights.

Shapes are numpy's: the last dimension is the fastest. Shapes are checked here because ggml aborts
the whole process on a wrong one. A graph is built once and run many times.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import NativeError
from engine.files.tensor_data import TensorData, row_bytes
from engine.llama.ggml_api import CPU_DEVICE, Ggml, InitParams
from engine.llama.log import Listening

DTYPES: dict[str, int] = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "I32": 26,
    "BF16": 30, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ4_NL": 20,
}  # fmt: skip
"""Weight formats that graphs take, with their numbers in ggml."""

_DEFAULT_ROOM = 512
_ROWS_AT_ONCE = 2048


@cache
def _api() -> Ggml:
    return Ggml()


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of an arena, valid until the arena closes."""

    address: int
    dtype: str
    shape: tuple[int, ...]


class CpuBackend:
    """Threads that compute graphs. Closing twice is safe."""

    def __init__(self, threads: int) -> None:
        api = _api()
        log = Listening()
        handle = api.init_backend(CPU_DEVICE, None)
        if not handle:
            raise NativeError(log.told("llama.cpp's CPU backend could not be started"))
        self._handle: int | None = handle
        api.set_threads(handle, threads)

    @property
    def handle(self) -> int:
        if self._handle is None:
            raise ValueError("the backend is closed")
        return self._handle

    def close(self) -> None:
        if self._handle is not None:
            _api().free_backend(self._handle)
            self._handle = None


class Arena:
    """Tensors, and the buffer that allocate() makes for all of them at once."""

    def __init__(self, backend: CpuBackend, room: int = _DEFAULT_ROOM) -> None:
        """room: tensors at most, results of operations included."""
        self._api = _api()
        self._backend = backend
        self._left = room
        overhead = self._api.tensor_overhead() * room + self._api.graph_overhead(room, False)
        self._context: int | None = self._api.init(InitParams(overhead, None, True))
        self._room = room
        self._buffer: int | None = None
        if not self._context:
            raise NativeError("no memory for a tensor graph")

    @property
    def bytes(self) -> int:
        """Of the allocated buffer."""
        return int(self._api.buffer_bytes(self._buffer)) if self._buffer else 0

    def tensor(self, dtype: str, shape: Sequence[int]) -> Tensor:
        """Declares a tensor: weights or an input."""
        row_bytes(dtype, shape[-1])  # whole blocks
        if not 1 <= len(shape) <= 4 or min(shape) < 1:
            raise ValueError(f"impossible shape {tuple(shape)}")
        lengths = (ctypes.c_int64 * len(shape))(*reversed(shape))
        address = self._api.new_tensor(self._take(), DTYPES[dtype], len(shape), lengths)
        return self._made(address, dtype, shape)

    # Operations

    def multiply_matrix(self, weights: Tensor, rows: Tensor) -> Tensor:
        """rows [n, in] times the transpose of weights [out, in]: [n, out] F32."""
        _require(len(weights.shape) == 2 and len(rows.shape) == 2, "matrices", weights, rows)
        _require(weights.shape[1] == rows.shape[1] and rows.dtype == "F32", "widths", weights, rows)
        shape = (rows.shape[0], weights.shape[0])
        address = self._api.mul_mat(self._take(), weights.address, rows.address)
        return self._made(address, "F32", shape)

    def add(self, left: Tensor, right: Tensor) -> Tensor:
        """right may be one row, which is then added to every row of left."""
        _require(_repeats(right.shape, left.shape), "shapes", left, right)
        _require(left.dtype == right.dtype == "F32", "dtypes", left, right)
        address = self._api.add(self._take(), left.address, right.address)
        return self._made(address, "F32", left.shape)

    def multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """Element by element; right may be one row."""
        _require(_repeats(right.shape, left.shape), "shapes", left, right)
        _require(left.dtype == right.dtype == "F32", "dtypes", left, right)
        address = self._api.mul(self._take(), left.address, right.address)
        return self._made(address, "F32", left.shape)

    def silu(self, source: Tensor) -> Tensor:
        _require(source.dtype == "F32", "dtype", source)
        return self._made(self._api.silu(self._take(), source.address), "F32", source.shape)

    def rms_norm(self, source: Tensor, epsilon: float) -> Tensor:
        _require(source.dtype == "F32", "dtype", source)
        address = self._api.rms_norm(self._take(), source.address, epsilon)
        return self._made(address, "F32", source.shape)

    def get_rows(self, table: Tensor, indices: Tensor) -> Tensor:
        """Rows of table [size, width] at indices [n] I32; indices must be below size."""
        _require(len(table.shape) == 2 and len(indices.shape) == 1, "shapes", table, indices)
        _require(indices.dtype == "I32", "dtype", indices)
        address = self._api.get_rows(self._take(), table.address, indices.address)
        return self._made(address, "F32", (indices.shape[0], table.shape[1]))

    def _take(self) -> int:
        if self._context is None or self._buffer is not None:
            raise ValueError("the arena is closed or already allocated")
        if self._left == 0:
            raise ValueError(f"more than {self._room} tensors in one arena")
        self._left -= 1
        return self._context

    @staticmethod
    def _made(address: int | None, dtype: str, shape: Sequence[int]) -> Tensor:
        if not address:
            raise NativeError("ggml could not make a tensor")
        return Tensor(address, dtype, tuple(shape))

    # Memory

    def allocate(self) -> None:
        """Memory for every tensor of the arena; afterwards nothing can be added."""
        if self._context is None or self._buffer is not None:
            raise ValueError("the arena is closed or already allocated")
        log = Listening()
        self._buffer = self._api.allocate(self._context, self._backend.handle)
        if not self._buffer:
            raise NativeError(log.told("no memory for the weights of a drafter"))

    def write(self, tensor: Tensor, values: NDArray[np.generic]) -> None:
        """Values of the tensor's own number type (F32, F16 or I32), same shape."""
        expected = {"F32": np.float32, "F16": np.float16, "I32": np.int32}[tensor.dtype]
        if values.shape != tensor.shape or values.dtype != expected:
            raise ValueError(f"{values.dtype} {values.shape} for {tensor.dtype} {tensor.shape}")
        data = np.ascontiguousarray(values)
        self._write_bytes(tensor, data.view(np.uint8).reshape(-1), 0)

    def write_data(self, tensor: Tensor, data: TensorData) -> None:
        """Weights as stored in a file, converted to the tensor's format, some rows at a time."""
        if data.shape != tensor.shape:
            raise ValueError(f"{data.shape} for {tensor.shape}")
        if data.dtype == tensor.dtype:
            self._write_bytes(tensor, data.raw.reshape(-1), 0)
            return
        rows, step = data.rows, row_bytes(tensor.dtype, tensor.shape[-1])
        for start in range(0, rows, _ROWS_AT_ONCE):
            part = data.floats(start, min(rows, start + _ROWS_AT_ONCE))
            self._write_bytes(tensor, quantize(part, tensor.dtype), start * step)

    def _write_bytes(self, tensor: Tensor, data: NDArray[np.uint8], offset: int) -> None:
        if self._buffer is None:
            raise ValueError("the arena has no memory yet")
        if offset + data.nbytes > self._api.bytes(tensor.address):
            raise ValueError("more data than the tensor holds")
        data = np.ascontiguousarray(data)
        self._api.write(tensor.address, data.ctypes.data, offset, data.nbytes)

    def read(self, tensor: Tensor) -> NDArray[np.float32]:
        """A copy of an F32 tensor."""
        _require(tensor.dtype == "F32", "dtype", tensor)
        if self._buffer is None:
            raise ValueError("the arena has no memory yet")
        values = np.empty(tensor.shape, np.float32)
        self._api.read(tensor.address, values.ctypes.data, 0, values.nbytes)
        return values

    def graph(self, outputs: Sequence[Tensor]) -> Graph:
        """What computes the outputs. Call before allocate(), so that no output is overwritten."""
        if self._context is None or self._buffer is not None:
            raise ValueError("the arena is closed or already allocated")
        handle = self._api.new_graph(self._context, self._room, False)
        if not handle:
            raise NativeError("no memory for a tensor graph")
        for output in outputs:
            self._api.set_output(output.address)
            self._api.expand(handle, output.address)
        return Graph(self._api, self._backend, handle)

    def close(self) -> None:
        if self._buffer is not None:
            self._api.free_buffer(self._buffer)
            self._buffer = None
        if self._context is not None:
            self._api.free(self._context)
            self._context = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Valid as long as the arena that made it."""

    _api: Ggml
    _backend: CpuBackend
    _handle: int

    def run(self) -> None:
        log = Listening()
        status = self._api.compute(self._backend.handle, self._handle)
        if status != 0:
            raise NativeError(log.told(f"a tensor graph failed with status {status}"))


def quantize(rows: NDArray[np.float32], dtype: str) -> NDArray[np.uint8]:
    """Rows [n, width] in a ggml format, as bytes."""
    rows = np.ascontiguousarray(rows, np.float32)
    count, width = rows.shape
    if dtype == "F32":
        return rows.view(np.uint8).reshape(-1)
    encoded = np.empty(count * row_bytes(dtype, width), np.uint8)
    written = _api().quantize(
        DTYPES[dtype], rows.ctypes.data, encoded.ctypes.data, 0, count, width, None
    )
    if written != encoded.nbytes:
        raise NativeError(f"ggml wrote {written} bytes of {dtype} instead of {encoded.nbytes}")
    return encoded


def _repeats(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether `small` is `large`, or one row of it."""
    return small == large or (small[-1] == large[-1] and math.prod(small) == small[-1])


def _require(condition: bool, what: str, *tensors: Tensor) -> None:
    if not condition:
        shapes = ", ".join(f"{tensor.dtype} {tensor.shape}" for tensor in tensors)
        raise ValueError(f"{what} do not fit: {shapes}")
