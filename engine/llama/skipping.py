"""A model without some of its layers, for trying out which: nothing is written, nothing reloaded.

While the graph runs, what enters a run of skipped layers replaces what leaves it, so that every
later layer sees what it would see if they were not there. The pass takes as long as a whole one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from engine.data.errors import IncompatiblePairError
from engine.llama.ggml_api import POINTER, bind


class LayerSkipper:
    """For ContextOptions.skipper. The first and the last layer cannot be skipped in this way."""

    def __init__(self) -> None:
        self._name_of = bind("ggml_get_name", [POINTER], ctypes.c_char_p)
        self._bytes_of = bind("ggml_nbytes", [POINTER], ctypes.c_size_t)
        sizes = [POINTER, POINTER, ctypes.c_size_t, ctypes.c_size_t]
        self._read = bind("ggml_backend_tensor_get", sizes, None)
        self._write = bind("ggml_backend_tensor_set", sizes, None)
        self._entrances: frozenset[bytes] = frozenset()
        self._exits: frozenset[bytes] = frozenset()
        self._kept: NDArray[np.uint8] | None = None
        self._replaced = 0
        self.callback = native.ggml_backend_sched_eval_callback(self._asked)

    def skip(self, layers: Iterable[int]) -> None:
        """From the next pass on these layers (from 0) do nothing."""
        skipped = frozenset(layers)
        self._entrances = frozenset(
            f"l_out-{layer - 1}".encode() for layer in skipped if layer - 1 not in skipped
        )
        self._exits = frozenset(
            f"l_out-{layer}".encode() for layer in skipped if layer + 1 not in skipped
        )
        self._replaced = 0

    def require_effect(self) -> None:
        """IncompatiblePairError when passes since `skip` did not show the layers."""
        if self._exits and self._replaced < len(self._exits):
            raise IncompatiblePairError(
                "this architecture does not show the outputs of its layers, so none can be left"
                " out on trial; name them yourself with --skip"
            )

    def _asked(self, tensor: int, ask: bool, _user_data: object) -> bool:
        """Asked before a node runs whether it is wanted, and called again with its result."""
        name = self._name_of(tensor)
        if ask:
            return name in self._entrances or name in self._exits
        size = self._bytes_of(tensor)
        if name in self._entrances:
            self._kept = np.empty(size, np.uint8)
            self._read(tensor, self._kept.ctypes.data, 0, size)
        elif name in self._exits and self._kept is not None and self._kept.nbytes == size:
            self._write(tensor, self._kept.ctypes.data, 0, size)
            self._replaced += 1
        return True
