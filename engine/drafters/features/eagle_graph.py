"""EAGLE's decoder layer as tensor graphs: entries in, logits and states out, a KV cache of its own.

Weights are copied and quantised; the target's embeddings and output matrix are read where they lie
in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.drafters.features.medusa_graph import WEIGHTS, stored_format
from engine.files.tensor_data import TensorData
from engine.heads.eagle_file import EagleLayer, Linear
from engine.llama.ggml import Arena, CpuBackend, Graph, Tensor
from engine.llama.ggml_attention import AttentionArena
from engine.llama.ggml_mapped import MappedTensor

FED_ROWS = 64
LEVEL_ROWS = 8
"""Most rows of a pass: of entries that are only remembered, and of nodes of one level of a tree."""

_LEAST_SPAN = 256

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TargetEnds:
    """Of the target, as they lie in its file: embeddings and output matrix [vocabulary, hidden]."""

    embeddings: TensorData
    output: TensorData


@dataclass(frozen=True, slots=True)
class Entries:
    """tokens, positions, cells: one per row. states: [rows, hidden], of the positions before.

    visible: [rows, span], which cells a row attends to, its own among them.
    """

    tokens: Sequence[int]
    states: Array
    positions: Sequence[int]
    cells: Sequence[int]
    visible: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Matrix:
    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class _Inputs:
    tokens: Tensor
    states: Tensor
    positions: Tensor
    cells: Tensor


@dataclass(frozen=True, slots=True)
class _Pass:
    """A graph for a fixed number of rows. mask, logits, out: None where it only remembers."""

    arena: Arena
    graph: Graph
    inputs: _Inputs
    mask: Tensor | None = None
    logits: Tensor | None = None
    out: Tensor | None = None


class EagleGraph:
    """cells: of the KV cache. Closing twice is safe."""

    def __init__(
        self,
        layer: EagleLayer,
        ends: TargetEnds,
        cells: int,
        threads: int,
        kind: str = WEIGHTS,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        self.shape = layer.shape
        self.cells = cells
        self._opened: list[Arena | MappedTensor | CpuBackend] = []
        self._drafting: dict[int, tuple[int, _Pass]] = {}
        self._feeding: _Pass | None = None
        try:
            self._prepare(layer, ends, threads, kind, on_progress)
        except BaseException:
            self.close()
            raise

    def _prepare(
        self,
        layer: EagleLayer,
        ends: TargetEnds,
        threads: int,
        kind: str,
        on_progress: Callable[[float], None] | None,
    ) -> None:
        self._backend = CpuBackend(threads)
        self._opened.append(self._backend)
        self._embeddings = self._map(ends.embeddings)
        self._output_bytes = ends.output.raw.nbytes
        tied = ends.output is ends.embeddings
        self._output = self._embeddings if tied else self._map(ends.output)
        self._weights = Arena(self._backend)
        self._opened.insert(0, self._weights)
        loads: list[tuple[Tensor, TensorData]] = []

        def weight(data: TensorData, wanted: str) -> Tensor:
            tensor = self._weights.tensor(stored_format(data, wanted), data.shape)
            loads.append((tensor, data))
            return tensor

        def matrix(linear: Linear) -> _Matrix:
            bias = weight(linear.bias, "F32") if linear.bias is not None else None
            return _Matrix(weight(linear.weight, kind), bias)

        self._fc = matrix(layer.fc)
        self._query, self._key, self._value = map(matrix, (layer.query, layer.key, layer.value))
        self._attention_output = matrix(layer.attention_output)
        self._norm = weight(layer.norm, "F32")
        self._gate, self._up, self._down = map(matrix, (layer.gate, layer.up, layer.down))
        width = self.shape.kv_heads * self.shape.head_width
        self._keys = self._weights.tensor("F16", (self.cells, width))
        self._values = self._weights.tensor("F16", (self.cells, width))
        self._weights.allocate()
        for cache in (self._keys, self._values):  # what is masked must still be a number
            self._weights.write(cache, np.zeros(cache.shape, np.float16))
        for done, (tensor, data) in enumerate(loads, start=1):
            self._weights.write_data(tensor, data)
            if on_progress is not None:
                on_progress(done / len(loads))

    def _map(self, data: TensorData) -> Tensor:
        mapped = MappedTensor(data)
        self._opened.insert(0, mapped)
        return mapped.tensor

    @property
    def bytes(self) -> int:
        """Weights, KV cache and the target's output matrix; of its embeddings few rows are read."""
        arenas = (one for one in self._opened if isinstance(one, Arena))
        return sum(arena.bytes for arena in arenas) + self._output_bytes

    # Building

    def _inputs(self, arena: AttentionArena, rows: int) -> _Inputs:
        return _Inputs(
            tokens=arena.tensor("I32", (rows,)),
            states=arena.tensor("F32", (rows, self.shape.hidden)),
            positions=arena.tensor("I32", (rows,)),
            cells=arena.tensor("I32", (rows,)),
        )

    def _remembered(self, arena: AttentionArena, inputs: _Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """The layer's input, and both caches with these entries in them."""
        embedded = arena.get_rows(self._embeddings, inputs.tokens)
        state = _applied(arena, self._fc, arena.side_by_side(embedded, inputs.states))
        keys = arena.joined(self._turned(arena, self._key, state, self.shape.kv_heads, inputs))
        values = _applied(arena, self._value, state)
        return (
            state,
            arena.stored(self._keys, keys, inputs.cells),
            arena.stored(self._values, values, inputs.cells),
        )

    def _turned(
        self, arena: AttentionArena, matrix: _Matrix, state: Tensor, heads: int, inputs: _Inputs
    ) -> Tensor:
        split = arena.heads(_applied(arena, matrix, state), heads)
        shape = self.shape
        return arena.rotated(split, inputs.positions, shape.rope_base, shape.rope_scale)

    def _build_feeding(self) -> _Pass:
        arena = AttentionArena(self._backend)
        self._opened.insert(0, arena)
        inputs = self._inputs(arena, FED_ROWS)
        _, keys, values = self._remembered(arena, inputs)
        graph = arena.graph([keys, values])
        arena.allocate()
        return _Pass(arena, graph, inputs)

    def _build_drafting(self, rows: int, span: int) -> _Pass:
        arena = AttentionArena(self._backend)
        self._opened.insert(0, arena)
        inputs = self._inputs(arena, rows)
        mask = arena.tensor("F16", (rows, span))
        state, keys, values = self._remembered(arena, inputs)
        query = self._turned(arena, self._query, state, self.shape.heads, inputs)
        mixed = arena.joined(arena.attention(query, keys, values, mask))
        state = arena.add(state, _applied(arena, self._attention_output, mixed))
        inner = arena.multiply(arena.rms_norm(state, self.shape.epsilon), self._norm)
        gate = arena.silu(_applied(arena, self._gate, inner))
        inner = arena.multiply(gate, _applied(arena, self._up, inner))
        out = arena.add(state, _applied(arena, self._down, inner))
        logits = arena.multiply_matrix(self._output, out)
        graph = arena.graph([out, logits])
        arena.allocate()
        return _Pass(arena, graph, inputs, mask, logits, out)

    # Running

    def feed(self, entries: Entries) -> None:
        """Remembers up to FED_ROWS entries; `visible` is not read."""
        if self._feeding is None:
            self._feeding = self._build_feeding()
        self._write(self._feeding, entries, FED_ROWS)
        self._feeding.graph.run()

    def draft(self, entries: Entries) -> tuple[Array, Array]:
        """Up to LEVEL_ROWS entries: logits [rows, vocabulary] and states [rows, hidden], copies."""
        count = len(entries.tokens)
        rows = 1 << (count - 1).bit_length()
        run = self._drafting_pass(rows, entries.visible.shape[1])
        self._write(run, entries, rows)
        if run.mask is None or run.logits is None or run.out is None:
            raise ValueError("a graph without outputs")
        mask = np.full(run.mask.shape, -np.inf, np.float16)
        mask[:, 0] = 0.0  # of rows that fill up the graph
        mask[:count, 0] = np.where(entries.visible[:, 0], 0.0, -np.inf)
        mask[:count, 1 : entries.visible.shape[1]][entries.visible[:, 1:]] = 0.0
        run.arena.write(run.mask, mask)
        run.graph.run()
        return run.arena.read(run.logits)[:count], run.arena.read(run.out)[:count]

    def _drafting_pass(self, rows: int, span: int) -> _Pass:
        """One graph a number of rows: it is built again when the span needs another size."""
        size = min(self.cells, max(_LEAST_SPAN, 1 << (span - 1).bit_length()))
        built = self._drafting.get(rows)
        if built is not None and built[0] == size:
            return built[1]
        if built is not None:
            self._opened.remove(built[1].arena)
            built[1].arena.close()
            del self._drafting[rows]
        run = self._build_drafting(rows, size)
        self._drafting[rows] = (size, run)
        return run

    def _write(self, run: _Pass, entries: Entries, rows: int) -> None:
        """Rows that fill up the graph are written to the last cell, which nothing else uses."""
        count, arena, inputs = len(entries.tokens), run.arena, run.inputs
        for tensor, values, filling in (
            (inputs.tokens, entries.tokens, 0),
            (inputs.positions, entries.positions, 0),
            (inputs.cells, entries.cells, self.cells - 1),
        ):
            column = np.full(rows, filling, np.int32)
            column[:count] = values
            arena.write(tensor, column)
        states = np.zeros((rows, self.shape.hidden), np.float32)
        states[:count] = entries.states
        arena.write(inputs.states, states)

    def close(self) -> None:
        for one in self._opened:
            one.close()
        self._opened.clear()
        self._drafting.clear()
        self._feeding = None


def _applied(arena: Arena, matrix: _Matrix, rows: Tensor) -> Tensor:
    product = arena.multiply_matrix(matrix.weight, rows)
    return product if matrix.bias is None else arena.add(product, matrix.bias)
