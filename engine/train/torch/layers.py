"""Pieces of decoder layers for training, as functions over packed documents.

Rotary positions turn neighbouring pairs, as llama.cpp's `llama` and `eagle3` architectures do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as functional
from torch import Tensor

from engine.train.target_weights import LayerShape

Weights = Mapping[str, Tensor]


def rms_norm(rows: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return functional.rms_norm(rows, (rows.shape[-1],), weight, epsilon)


def feed_forward(rows: Tensor, weights: Weights, prefix: str) -> Tensor:
    """SwiGLU."""
    gate = functional.silu(functional.linear(rows, weights[f"{prefix}ffn_gate.weight"]))
    up = functional.linear(rows, weights[f"{prefix}ffn_up.weight"])
    return functional.linear(gate * up, weights[f"{prefix}ffn_down.weight"])


class Rotary:
    """Angles of rotary positions, computed once for as many positions as are asked for."""

    def __init__(self, shape: LayerShape, device: torch.device) -> None:
        steps = torch.arange(0, shape.head_width, 2, dtype=torch.float64) / shape.head_width
        self._speeds = torch.pow(torch.tensor(shape.rope_base, dtype=torch.float64), -steps)
        self._device = device
        self._cos = torch.empty(0, 1, len(steps))
        self._sin = self._cos

    def __call__(self, heads: Tensor, positions: Tensor) -> Tensor:
        """heads [rows, heads, width] turned to positions [rows]."""
        self._reach(int(positions.max()) + 1 if len(positions) else 0)
        cos, sin = self._cos[positions], self._sin[positions]
        even, odd = heads[..., 0::2], heads[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    def _reach(self, count: int) -> None:
        if count <= len(self._cos):
            return
        angles = torch.outer(torch.arange(2 * count, dtype=torch.float64), self._speeds)
        self._cos = angles.cos().float()[:, None].to(self._device)
        self._sin = angles.sin().float()[:, None].to(self._device)


@dataclass(frozen=True, slots=True)
class Chain:
    """What the anchors drafted so far left in the cache: one entry a step for each anchor.

    keys, values: [anchors, steps, kv heads, width].
    """

    keys: Tensor
    values: Tensor


def anchored_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    chain: Chain | None,
    places: Sequence[tuple[slice, slice, Tensor]],
) -> Tensor:
    """Attention of anchors over their document up to themselves, and over their own drafts.

    queries [anchors, heads, width]; keys, values [rows, kv heads, width]. places: for each
    document its anchors, its rows, and a mask [anchors, rows] to add. Returns [anchors, heads x
    width]. This is the training-time test of EAGLE-3 (arXiv 2503.01840, section 3.2): causal over
    entries of true features, then a diagonal over each anchor's own.
    """
    count, heads, width = queries.shape
    if not count:
        return queries.new_zeros((0, heads * width))
    kv_heads = keys.shape[1]
    grouped = (queries * width**-0.5).view(count, kv_heads, heads // kv_heads, width)
    own = None if chain is None else torch.einsum("akgw,askw->akgs", grouped, chain.keys)
    mixed = []
    for anchors, rows, mask in places:
        mixed.append(
            _one_document(
                grouped[anchors],
                keys[rows],
                values[rows],
                mask,
                None
                if own is None or chain is None
                else _OwnEntries(own[anchors], chain.values[anchors]),
            )
        )
    return torch.cat(mixed)


@dataclass(frozen=True, slots=True)
class _OwnEntries:
    """What each anchor sees of the entries of its own chain."""

    scores: Tensor
    values: Tensor


def _one_document(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, own: _OwnEntries | None
) -> Tensor:
    count, kv_heads, group, width = queries.shape
    stacked = queries.permute(1, 2, 0, 3).reshape(kv_heads, group * count, width)
    scores = torch.bmm(stacked, keys.permute(1, 2, 0))
    scores = scores.view(kv_heads, group, count, -1) + mask
    if own is None:
        shares = torch.softmax(scores, dim=-1).view(kv_heads, group * count, -1)
        mixed = torch.bmm(shares, values.transpose(0, 1)).view(kv_heads, group, count, width)
        return mixed.permute(2, 0, 1, 3).reshape(count, -1)
    both = torch.softmax(torch.cat([scores, own.scores.permute(1, 2, 0, 3)], dim=-1), dim=-1)
    far, near = both[..., : scores.shape[-1]], both[..., scores.shape[-1] :]
    mixed = torch.bmm(far.reshape(kv_heads, group * count, -1), values.transpose(0, 1))
    mixed = mixed.view(kv_heads, group, count, width).permute(2, 0, 1, 3)
    mixed = mixed + torch.einsum("kgas,askw->akgw", near, own.values)
    return mixed.reshape(count, -1)


def causal_attention(
    queries: Tensor, keys: Tensor, values: Tensor, starts: Sequence[int]
) -> Tensor:
    """Inside each document: [rows, heads, width] to [rows, heads x width]."""
    mixed = []
    for start, stop in pairwise(starts):
        part = functional.scaled_dot_product_attention(
            queries[start:stop].transpose(0, 1)[None],
            keys[start:stop].transpose(0, 1)[None],
            values[start:stop].transpose(0, 1)[None],
            is_causal=True,
            enable_gqa=queries.shape[1] != keys.shape[1],
        )
        mixed.append(part[0].transpose(0, 1).flatten(1))
    return torch.cat(mixed)


def row_positions(starts: Sequence[int], device: torch.device) -> Tensor:
    """[rows]: of each row inside its document."""
    return torch.cat([torch.arange(stop - start) for start, stop in pairwise(starts)]).to(device)


def best_rows(states: Tensor, head: Tensor, at_once: int = 1024) -> Tensor:
    """Row of the head with the largest logit, for each state [n]."""
    parts = [(part @ head.t()).argmax(dim=1) for part in torch.split(states, at_once)]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64, device=states.device)
