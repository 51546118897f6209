"""Weights that graphs read where they lie in a mapped file: no copy, any format of llama.cpp."""

from __future__ import annotations

import ctypes

from engine.data.errors import NativeError
from engine.files.gguf_types import TENSOR_TYPES
from engine.files.tensor_data import TensorData
from engine.llama.ggml import Tensor
from engine.llama.ggml_api import POINTER, Ggml, InitParams, bind

ALIGNMENT = 32
"""Of tensor data in GGUF files, and what llama.cpp asks of memory that it did not allocate."""

_NUMBERS = {name: number for number, (name, _, _) in TENSOR_TYPES.items()}


class MappedTensor:
    """data: bytes that stay mapped as long as this is open. Closing twice is safe."""

    def __init__(self, data: TensorData) -> None:
        start = data.raw.ctypes.data
        if start % ALIGNMENT or not data.raw.flags.c_contiguous:
            raise ValueError("mapped weights must lie at a multiple of 32 bytes")
        self._api = Ggml()
        self._data = data
        self._context: int | None = None
        self._buffer: int | None = None
        self._context = self._api.init(InitParams(2 * self._api.tensor_overhead(), None, True))
        map_buffer = bind("ggml_backend_cpu_buffer_from_ptr", [POINTER, ctypes.c_size_t], POINTER)
        place = bind("ggml_backend_tensor_alloc", [POINTER, POINTER, POINTER], ctypes.c_int)
        self._buffer = map_buffer(start, data.raw.nbytes)
        lengths = (ctypes.c_int64 * len(data.shape))(*reversed(data.shape))
        address = self._api.new_tensor(
            self._context, _NUMBERS[data.dtype], len(data.shape), lengths
        )
        if not self._buffer or not address or place(self._buffer, address, start) != 0:
            self.close()
            raise NativeError("weights of the target could not be mapped")
        self.tensor = Tensor(address, data.dtype, data.shape)

    def close(self) -> None:
        if self._buffer is not None:
            self._api.free_buffer(self._buffer)
            self._buffer = None
        if self._context is not None:
            self._api.free(self._context)
            self._context = None
