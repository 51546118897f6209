"""What every row of a pass was computed from: results of the graph's nodes, before rounding hides
that they differ (weights with few bits meet activations with few bits).
"""

from __future__ import annotations

import ctypes

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from engine.llama.ggml_api import POINTER, bind


class PassRecorder:
    """For ContextOptions.recorder. Slows passes down."""

    def __init__(self) -> None:
        self._bytes_of = bind("ggml_nbytes", [POINTER], ctypes.c_size_t)
        self._elements_of = bind("ggml_nelements", [POINTER], ctypes.c_int64)
        self._rows_of = bind("ggml_nrows", [POINTER], ctypes.c_int64)
        self._is_matrix = bind("ggml_is_matrix", [POINTER], ctypes.c_bool)
        self._is_contiguous = bind("ggml_is_contiguous", [POINTER], ctypes.c_bool)
        self._copy = bind(
            "ggml_backend_tensor_get", [POINTER, POINTER, ctypes.c_size_t, ctypes.c_size_t], None
        )
        self._count = 0
        self._found: list[list[int]] = []
        self.callback = native.ggml_backend_sched_eval_callback(self._asked)

    def begin(self, rows: int) -> None:
        """The next pass has so many rows, all of them outputs."""
        self._count = rows
        self._found = []

    def rows(self) -> NDArray[np.int64]:
        """[rows, nodes] of the pass: equal where all results of a row are equal bit for bit."""
        return np.array(self._found, np.int64).T

    def _asked(self, tensor: int, ask: bool, _user_data: object) -> bool:
        """Asked before a node runs whether it is wanted, and called again with its result."""
        if ask:
            return bool(
                self._count
                and self._is_matrix(tensor)
                and self._rows_of(tensor) == self._count
                and self._is_contiguous(tensor)
                and self._bytes_of(tensor) == 4 * self._elements_of(tensor)
            )
        values = np.empty(self._bytes_of(tensor), np.uint8)
        self._copy(tensor, values.ctypes.data, 0, values.nbytes)
        self._found.append([hash(row.tobytes()) for row in values.reshape(self._count, -1)])
        return True
