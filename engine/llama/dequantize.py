"""Weights of a file as float32, whatever format they are stored in."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import ModelFileError
from engine.files.gguf_types import TENSOR_TYPES
from engine.files.tensor_data import FLOATS, TensorData, row_bytes
from engine.llama.ggml_api import POINTER, bind

_NUMBERS = {name: number for number, (name, _, _) in TENSOR_TYPES.items()}


class _TypeTraits(ctypes.Structure):
    """struct ggml_type_traits."""

    _fields_ = (
        ("type_name", ctypes.c_char_p),
        ("block", ctypes.c_int64),
        ("block_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", POINTER),
        ("from_float", POINTER),
    )


_TO_FLOAT = ctypes.CFUNCTYPE(None, POINTER, POINTER, ctypes.c_int64)


def dequantize(data: TensorData, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
    """Rows start..stop [rows, width]. ModelFileError for formats that are not weights."""
    if data.dtype in FLOATS:
        return data.floats(start, stop)
    stop = data.rows if stop is None else stop
    width = data.shape[-1]
    step = row_bytes(data.dtype, width)
    traits = bind("ggml_get_type_traits", [ctypes.c_int], ctypes.POINTER(_TypeTraits))
    address = traits(_NUMBERS[data.dtype]).contents.to_float
    if not address:
        raise ModelFileError(f"weights stored as {data.dtype} cannot be read")
    packed = np.ascontiguousarray(data.raw.reshape(-1)[start * step : stop * step])
    values = np.empty((stop - start, width), np.float32)
    _TO_FLOAT(address)(packed.ctypes.data, values.ctypes.data, values.size)
    return values
