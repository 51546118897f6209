"""Trained weights in the formats of GGUF files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.files.tensor_data import TensorData, as_f32, row_bytes
from engine.llama.dequantize import dequantize
from engine.llama.ggml import quantize

MATRIX_FORMATS = ("F16", "Q8_0", "Q4_0")


def encoded(values: NDArray[np.float32], dtype: str) -> TensorData:
    """Vectors stay F32; matrices whose rows are not whole blocks of the format become F16."""
    if values.ndim == 1 or dtype == "F32":
        return as_f32(values)
    try:
        row_bytes(dtype, values.shape[-1])
    except ValueError:
        dtype = "F16"
    return TensorData(dtype, values.shape, quantize(values, dtype))


def through_format(values: NDArray[np.float32], dtype: str) -> NDArray[np.float32]:
    """What is left of the values once they were stored in the format."""
    return dequantize(encoded(values, dtype)).reshape(values.shape)
