"""Medusa heads as one tensor graph: a hidden state in, one row of logits per head out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.files.tensor_data import FLOATS, TensorData, row_bytes
from engine.heads.medusa_file import MedusaHead, MedusaHeads
from engine.llama.ggml import DTYPES, Arena, CpuBackend, Graph, Tensor

WEIGHTS = "Q8_0"
"""Format that floating point heads are kept in: half of F16, and acceptance stays the same."""


class MedusaGraph:
    """Owns the weights. Closing twice is safe."""

    def __init__(
        self,
        heads: MedusaHeads,
        threads: int,
        dtype: str = WEIGHTS,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        """dtype: format for heads stored as floats; heads quantised already stay as they are."""
        self.count = len(heads.heads)
        self._backend = CpuBackend(threads)
        self._weights = Arena(self._backend)
        self._work = Arena(self._backend)
        try:
            self._prepare(heads, dtype, on_progress)
        except BaseException:
            self.close()
            raise

    def _prepare(
        self, heads: MedusaHeads, dtype: str, on_progress: Callable[[float], None] | None
    ) -> None:
        loads: list[tuple[Tensor, TensorData]] = []
        known: dict[int, Tensor] = {}

        def weight(data: TensorData, wanted: str) -> Tensor:
            if id(data) in known:  # rows that all heads share
                return known[id(data)]
            tensor = known[id(data)] = self._weights.tensor(stored_format(data, wanted), data.shape)
            loads.append((tensor, data))
            return tensor

        self._input = self._work.tensor("F32", (1, heads.hidden_size))
        self._logits = [self._head(head, dtype, weight) for head in heads.heads]
        self._graph: Graph = self._work.graph(self._logits)
        self._weights.allocate()
        self._work.allocate()
        for done, (tensor, data) in enumerate(loads, start=1):
            self._weights.write_data(tensor, data)
            if on_progress is not None:
                on_progress(done / len(loads))

    def _head(
        self, head: MedusaHead, dtype: str, weight: Callable[[TensorData, str], Tensor]
    ) -> Tensor:
        work, state = self._work, self._input
        for matrix, bias in head.blocks:
            inner = work.multiply_matrix(weight(matrix, dtype), state)
            inner = work.add(inner, weight(bias, "F32"))
            state = work.add(state, work.silu(inner))
        if head.output is None:
            raise ValueError("heads without their rows of the target's matrix")
        return work.multiply_matrix(weight(head.output, dtype), state)

    @property
    def bytes(self) -> int:
        return self._weights.bytes + self._work.bytes

    def run(self, hidden: NDArray[np.float32]) -> None:
        """hidden: [hidden_size], the target's final hidden state of one row."""
        self._work.write(self._input, np.ascontiguousarray(hidden[None, :]))
        self._graph.run()

    def logits(self, head: int) -> NDArray[np.float32]:
        """[rows] of one head, after run; a copy."""
        row: NDArray[np.float32] = self._work.read(self._logits[head])[0]
        return row

    def close(self) -> None:
        self._work.close()
        self._weights.close()
        self._backend.close()


def stored_format(data: TensorData, wanted: str) -> str:
    """The stored format if it is quantised; else the wanted one, F16 where rows do not fit it."""
    if data.dtype not in FLOATS:
        if data.dtype not in DTYPES:
            raise ValueError(f"heads in the format {data.dtype} cannot be used")
        return data.dtype
    try:
        row_bytes(wanted, data.shape[-1])
    except ValueError:
        return "F16"
    return wanted
