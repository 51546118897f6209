"""Trained weights in the formats of GGUF files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.files.tensor_data import TensorData, as_f32, row_bytes
from engine.llama.dequantize import dequantize
from engine.llama.ggml import quantize

MATRIX_FORMATS = ("F16", "Q8_0", "Q4_0")


def encoded(values: NDArray[np.float32], kind: str) -> TensorData:
    """Vectors stay F32; matrices whose rows are not whole blocks of the format become F16."""
    if values.ndim == 1 or kind == "F32":
        return as_f32(values)
    try:
        row_bytes(kind, values.shape[-1])
    except ValueError:
        kind = "F16"
    return TensorData(kind, values.shape, quantize(values, kind))


def through_format(values: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    """What is left of the values once they were stored in the format."""
    return dequantize(encoded(values, kind)).reshape(values.shape)
