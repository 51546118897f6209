"""What a trainer needs of the target's GGUF: shapes, the layers' weights, rows of its head."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import ModelFileError
from engine.files.gguf import GgufInfo, inspect
from engine.files.gguf_data import read_tensors
from engine.files.gguf_header import read_header
from engine.files.tensor_data import TensorData, rows_of
from engine.llama.dequantize import dequantize

Array = NDArray[np.float32]
SPLIT_ROPE = frozenset({"qwen2", "qwen3"})
"""Architectures that rotate the two halves of a head; the others rotate neighbouring pairs."""
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Of one decoder layer. rope_base, epsilon: as the target has them."""

    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    rope_base: float
    epsilon: float

    @property
    def queries(self) -> int:
        return self.heads * self.head_width

    @property
    def keys(self) -> int:
        return self.kv_heads * self.head_width


class TargetWeights:
    """Weights are read and dequantised when asked for; nothing is kept."""

    def __init__(self, path: Path) -> None:
        """Raises ModelFileError (not readable)."""
        self.path = path
        self.info: GgufInfo = inspect(path)
        self._tensors = read_tensors(path)
        self._metadata = read_header(path).metadata
        self.layers = self.info.block_count
        self.vocabulary = self._required("token_embd.weight").shape[0]
        self.shape = self._shape()

    def _shape(self) -> LayerShape:
        info = self.info
        return LayerShape(
            hidden=info.embedding_length,
            heads=max(info.head_count),
            kv_heads=max(info.head_count_kv),
            head_width=info.key_length,
            feed_forward=info.feed_forward_length,
            rope_base=self.number("rope.freq_base", 10_000.0),
            epsilon=self.number("attention.layer_norm_rms_epsilon", 1e-5),
        )

    def number(self, key: str, default: float) -> float:
        value = self._metadata.get(f"{self.info.architecture}.{key}", default)
        return float(value) if isinstance(value, int | float) else default

    @property
    def splits_rope(self) -> bool:
        return self.info.architecture in SPLIT_ROPE

    def has(self, name: str) -> bool:
        return name in self._tensors

    def tensor(self, name: str) -> Array:
        """[rows, width], or [width] for norms and biases. ModelFileError when it is missing."""
        data = self._required(name)
        return dequantize(data).reshape(data.shape)

    def head_data(self) -> TensorData:
        """The matrix to the vocabulary as stored: its own, or the token embeddings."""
        own = self._tensors.get("output.weight")
        return own if own is not None else self._required("token_embd.weight")

    def head_part(self, token_ids: NDArray[np.int64]) -> TensorData:
        """Rows of the matrix to the vocabulary, in the format they are stored in."""
        return rows_of(self.head_data(), token_ids)

    def head_rows(self, token_ids: NDArray[np.int64]) -> Array:
        """Rows of the matrix to the vocabulary [tokens, hidden]."""
        return dequantize(self.head_part(token_ids))

    def embeddings(self) -> NDArray[np.float16]:
        """The whole table [vocabulary, hidden], in half precision: large, and only looked up."""
        data = self._required("token_embd.weight")
        table = np.empty(data.shape, np.float16)
        for start in range(0, self.vocabulary, _ROWS_AT_ONCE):
            stop = min(self.vocabulary, start + _ROWS_AT_ONCE)
            table[start:stop] = dequantize(data, start, stop)
        return table

    def interleaved(self, weights: Array, heads: int) -> Array:
        """q or k rows [heads x width, ...] for rotary positions over neighbouring pairs."""
        if not self.splits_rope:
            return weights
        halves = weights.reshape(heads, 2, self.shape.head_width // 2, -1)
        return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weights.shape)

    def stored_order(self, weights: Array, heads: int) -> Array:
        """The reverse of `interleaved`."""
        if not self.splits_rope:
            return weights
        pairs = weights.reshape(heads, self.shape.head_width // 2, 2, -1)
        return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weights.shape)

    def _required(self, name: str) -> TensorData:
        if name not in self._tensors:
            raise ModelFileError(f"{self.path.name} has no tensor {name}")
        return self._tensors[name]
