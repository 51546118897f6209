"""Random EAGLE-3 drafters as llama.cpp reads them, and the same layer in numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
EPSILON = 1e-5
ROPE_BASE = 10_000.0


@dataclass(frozen=True)
class Eagle3Shape:
    """vocabulary: of the target. drafted: target ids of the rows of an own head, () for none."""

    hidden: int
    vocabulary: int
    layers: tuple[int, int, int]
    drafted: Sequence[int] = ()
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 96
    context: int = 512
    seed: int = 0

    @property
    def head_width(self) -> int:
        return self.hidden // self.heads


def random_weights(shape: Eagle3Shape) -> dict[str, Array]:
    random = np.random.default_rng(shape.seed)
    hidden, keys = shape.hidden, shape.kv_heads * shape.head_width

    def matrix(rows: int, columns: int) -> Array:
        return (random.standard_normal((rows, columns)) / math.sqrt(columns)).astype(np.float32)

    def norm() -> Array:
        return (1.0 + 0.1 * random.standard_normal(hidden)).astype(np.float32)

    weights = {
        "fc.weight": matrix(hidden, 3 * hidden),
        "blk.0.attn_norm.weight": norm(),
        "blk.0.attn_norm_2.weight": norm(),
        "blk.0.attn_q.weight": matrix(hidden, 2 * hidden),
        "blk.0.attn_k.weight": matrix(keys, 2 * hidden),
        "blk.0.attn_v.weight": matrix(keys, 2 * hidden),
        "blk.0.attn_output.weight": matrix(hidden, hidden),
        "blk.0.ffn_norm.weight": norm(),
        "blk.0.ffn_gate.weight": matrix(shape.feed_forward, hidden),
        "blk.0.ffn_up.weight": matrix(shape.feed_forward, hidden),
        "blk.0.ffn_down.weight": matrix(hidden, shape.feed_forward),
        "output_norm.weight": norm(),
    }
    if shape.drafted:
        weights["output.weight"] = matrix(len(shape.drafted), hidden)
    return weights


def write_eagle3(path: Path, shape: Eagle3Shape) -> Path:
    writer = gguf.GGUFWriter(path, "eagle3")
    writer.add_name("Tiny EAGLE-3")
    writer.add_block_count(1)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_array("eagle3.target_layers", list(shape.layers))
    writer.add_uint32("eagle3.target_hidden_size", shape.hidden)
    writer.add_tokenizer_model("none")
    for name, weights in random_weights(shape).items():
        writer.add_tensor(name, weights)
    if shape.drafted:
        writer.add_tensor("d2t", np.array(shape.drafted, np.int64))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def reference_draft(shape: Eagle3Shape, features: Array, embeddings: Array) -> tuple[Array, Array]:
    """Logits of the own head after the last entry, and that entry's state.

    features: [n, 3 x hidden] of positions 0 to n - 1; embeddings: [n, hidden] of the tokens after.
    """
    w = {name: value.astype(np.float64) for name, value in random_weights(shape).items()}
    state = features.astype(np.float64) @ w["fc.weight"].T
    joined = np.concatenate(
        [
            _norm(embeddings.astype(np.float64)) * w["blk.0.attn_norm.weight"],
            _norm(state) * w["blk.0.attn_norm_2.weight"],
        ],
        axis=1,
    )
    count, width = len(state), shape.head_width
    query = _rotated((joined @ w["blk.0.attn_q.weight"].T).reshape(count, shape.heads, width))
    key = _rotated((joined @ w["blk.0.attn_k.weight"].T).reshape(count, shape.kv_heads, width))
    value = (joined @ w["blk.0.attn_v.weight"].T).reshape(count, shape.kv_heads, width)
    group = shape.heads // shape.kv_heads
    mixed = np.empty((count, shape.heads, width))
    for head in range(shape.heads):
        scores = query[:, head] @ key[:, head // group].T / math.sqrt(width)
        scores[np.triu_indices(count, 1)] = -np.inf
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        mixed[:, head] = scores / scores.sum(axis=1, keepdims=True) @ value[:, head // group]
    state = state + mixed.reshape(count, -1) @ w["blk.0.attn_output.weight"].T
    inner = _norm(state) * w["blk.0.ffn_norm.weight"]
    gate = inner @ w["blk.0.ffn_gate.weight"].T
    inner = gate / (1.0 + np.exp(-gate)) * (inner @ w["blk.0.ffn_up.weight"].T)
    state = state + inner @ w["blk.0.ffn_down.weight"].T
    logits = (_norm(state) * w["output_norm.weight"]) @ w["output.weight"].T
    return logits[-1].astype(np.float32), state[-1].astype(np.float32)


def _norm(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    scale: NDArray[np.float64] = np.sqrt((rows**2).mean(axis=-1, keepdims=True) + EPSILON)
    return rows / scale


def _rotated(heads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotary positions 0.. for [n, heads, width], neighbouring pairs."""
    count, _, width = heads.shape
    angles = np.outer(np.arange(count), ROPE_BASE ** (-np.arange(0, width, 2) / width))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    even, odd = heads[..., 0::2], heads[..., 1::2]
    turned = np.empty_like(heads)
    turned[..., 0::2], turned[..., 1::2] = even * cos - odd * sin, even * sin + odd * cos
    return turned
