"""Random EAGLE-1 checkpoints as they are published, and the same layer in numpy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from tests.engine.head_files import write_safetensors, write_torch

Array = NDArray[np.float32]
EPSILON = 1e-5
ROPE_BASE = 10_000.0
_ATTENTION = "layers.0.self_attn."
_MLP = "layers.0.mlp."


@dataclass(frozen=True)
class EagleSizes:
    """biases: also of the projections of attention, as for targets of the Qwen 2 family.

    embeddings: whether it holds a copy of the target's.
    likely: mostly passes the token's embedding on, which drafts well for random targets.
    """

    hidden: int
    vocabulary: int
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 96
    biases: bool = False
    likely: bool = False
    embeddings: bool = True
    seed: int = 0

    @property
    def head_width(self) -> int:
        return self.hidden // self.heads


class EagleChanges(TypedDict, total=False):
    """What may differ from the usual sizes, as keyword arguments."""

    hidden: int
    vocabulary: int
    heads: int
    kv_heads: int
    feed_forward: int
    biases: bool
    likely: bool
    embeddings: bool
    seed: int


def random_eagle(sizes: EagleSizes) -> dict[str, Array]:
    random = np.random.default_rng(sizes.seed)
    hidden, keys = sizes.hidden, sizes.kv_heads * sizes.head_width

    def matrix(rows: int, columns: int) -> Array:
        return (random.standard_normal((rows, columns)) / math.sqrt(columns)).astype(np.float32)

    weights = {
        "fc.weight": matrix(hidden, 2 * hidden),
        f"{_ATTENTION}q_proj.weight": matrix(hidden, hidden),
        f"{_ATTENTION}k_proj.weight": matrix(keys, hidden),
        f"{_ATTENTION}v_proj.weight": matrix(keys, hidden),
        f"{_ATTENTION}o_proj.weight": matrix(hidden, hidden),
        f"{_MLP}gate_proj.weight": matrix(sizes.feed_forward, hidden),
        f"{_MLP}up_proj.weight": matrix(sizes.feed_forward, hidden),
        f"{_MLP}down_proj.weight": matrix(hidden, sizes.feed_forward),
    }
    if sizes.biases:
        for name in ("fc", *(f"{_ATTENTION}{part}_proj" for part in "qkv")):
            rows = len(weights[f"{name}.weight"])
            weights[f"{name}.bias"] = random.standard_normal(rows).astype(np.float32)
    if sizes.likely:
        for name in ("fc", f"{_ATTENTION}o_proj", f"{_MLP}down_proj"):
            weights[f"{name}.weight"] *= np.float32(0.1)
        weights["fc.weight"][:, :hidden] += np.eye(hidden, dtype=np.float32)
    norm = 1.0 + 0.1 * random.standard_normal(hidden)
    weights["layers.0.post_attention_layernorm.weight"] = norm.astype(np.float32)
    return weights


def write_eagle(
    folder: Path,
    sizes: EagleSizes,
    torch: bool = False,
    config: Mapping[str, object] | None = None,
) -> Path:
    """config: entries of config.json that replace the usual ones."""
    folder.mkdir(exist_ok=True)
    values: dict[str, object] = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.feed_forward,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "num_hidden_layers": 1,
        "rms_norm_eps": EPSILON,
        "vocab_size": sizes.vocabulary,
    }
    (folder / "config.json").write_text(json.dumps(values | dict(config or {})))
    weights = random_eagle(sizes)
    if sizes.embeddings:
        weights["embed_tokens.weight"] = np.zeros((sizes.vocabulary, sizes.hidden), np.float32)
    if torch:
        write_torch(folder / "pytorch_model.bin", weights)
    else:
        write_safetensors(folder / "model.safetensors", weights)
    return folder


def reference_states(sizes: EagleSizes, states: Array, embeddings: Array) -> Array:
    """What comes out after every entry, [n, hidden].

    states: [n, hidden] of positions 0 to n - 1; embeddings: [n, hidden] of the tokens after them.
    """
    w = {name: value.astype(np.float64) for name, value in random_eagle(sizes).items()}

    def applied(name: str, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = rows @ w[f"{name}.weight"].T
        return product + w.get(f"{name}.bias", 0.0)

    state = applied("fc", np.concatenate([embeddings, states], axis=1).astype(np.float64))
    count, width = len(state), sizes.head_width
    query = _rotated(applied(f"{_ATTENTION}q_proj", state).reshape(count, sizes.heads, width))
    key = _rotated(applied(f"{_ATTENTION}k_proj", state).reshape(count, sizes.kv_heads, width))
    value = applied(f"{_ATTENTION}v_proj", state).reshape(count, sizes.kv_heads, width)
    group = sizes.heads // sizes.kv_heads
    mixed = np.empty((count, sizes.heads, width))
    for head in range(sizes.heads):
        scores = query[:, head] @ key[:, head // group].T / math.sqrt(width)
        scores[np.triu_indices(count, 1)] = -np.inf
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        mixed[:, head] = scores / scores.sum(axis=1, keepdims=True) @ value[:, head // group]
    state = state + applied(f"{_ATTENTION}o_proj", mixed.reshape(count, -1))
    scale = np.sqrt((state**2).mean(axis=1, keepdims=True) + EPSILON)
    inner = state / scale * w["layers.0.post_attention_layernorm.weight"]
    gate = applied(f"{_MLP}gate_proj", inner)
    inner = gate / (1.0 + np.exp(-gate)) * applied(f"{_MLP}up_proj", inner)
    return (state + applied(f"{_MLP}down_proj", inner)).astype(np.float32)


def reference_draft(sizes: EagleSizes, states: Array, table: Array, tokens: Sequence[int]) -> Array:
    """The states that drafting on leads to: one per token beyond those that have a true state.

    states: [n, hidden] of the text; tokens: those after its first, then drafted ones, in all more
    than n. table: the target's embeddings.
    """
    known = list(states)
    drafted = []
    while len(known) <= len(tokens):
        count = len(known)
        out = reference_states(sizes, np.stack(known), table[list(tokens[:count])])[-1]
        known.append(out)
        drafted.append(out)
    return np.stack(drafted)


def _rotated(heads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotary positions 0.. for [n, heads, width]; value i turns with value i + width / 2."""
    count, _, width = heads.shape
    angles = np.outer(np.arange(count), ROPE_BASE ** (-np.arange(0, width, 2) / width))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    low, high = heads[..., : width // 2], heads[..., width // 2 :]
    return np.concatenate([low * cos - high * sin, low * sin + high * cos], axis=-1)
