"""The target cut to a few of its layers and tuned to what the whole target says.

A small model of the target's own architecture (early exit with distillation, as in LayerSkip, arXiv
2404.16710, and Draft & Verify, arXiv 2309.08168, but trained): embeddings and the matrix to the
vocabulary are the target's and frozen, layers and norms learn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import Tensor

from engine.train.heldout import Drafts
from engine.train.target_weights import TargetWeights
from engine.train.torch.batches import Batch, Features
from engine.train.torch.layers import (
    Rotary,
    best_rows,
    causal_attention,
    feed_forward,
    rms_norm,
    row_positions,
)
from engine.train.torch.loss import soft_cross_entropy
from engine.train.torch.student import DraftHead, collect_drafts, learnable
from engine.train.trainable import LAYER_MATRICES, LAYER_NORMS

LEARNING_RATE = 4e-4
_BIASES = ("attn_q", "attn_k", "attn_v")


def layer_choices(layers: int, keep: int) -> list[tuple[int, ...]]:
    """Which layers to start from, most of them from the front or spread evenly.

    ValueError unless 2 <= keep < layers.
    """
    if not 2 <= keep < layers:
        raise ValueError(f"{keep} of {layers} layers")
    spread = tuple(sorted({round(i * (layers - 1) / (keep - 1)) for i in range(keep)}))
    choices = [
        (*range(keep - last), *range(layers - last, layers)) for last in (1, 2) if last < keep
    ]
    return [*dict.fromkeys([*choices, spread])]


def initial_weights(target: TargetWeights, kept: Sequence[int]) -> dict[str, NDArray[np.float32]]:
    """By the names of a file that holds only these layers; q and k rotate neighbouring pairs."""
    shape = target.shape
    weights = {"output_norm.weight": target.tensor("output_norm.weight")}
    for place, layer in enumerate(kept):
        for name in (*LAYER_NORMS, *LAYER_MATRICES):
            weights[f"blk.{place}.{name}.weight"] = target.tensor(f"blk.{layer}.{name}.weight")
        for name in _BIASES:
            if target.has(f"blk.{layer}.{name}.bias"):
                weights[f"blk.{place}.{name}.bias"] = target.tensor(f"blk.{layer}.{name}.bias")
    for name, values in weights.items():
        heads = {"attn_q": shape.heads, "attn_k": shape.kv_heads}.get(name.split(".")[-2])
        if heads is not None:
            weights[name] = target.interleaved(values, heads)
    return weights


class EarlyExitStudent:
    """weights: see initial_weights. head: the target's, whole."""

    features = Features()

    def __init__(
        self,
        target: TargetWeights,
        weights: dict[str, NDArray[np.float32]],
        head: DraftHead,
        positions: int,
        device: torch.device,
    ) -> None:
        self.parameters = learnable(weights, device)
        self.positions = positions
        self.rate = LEARNING_RATE
        self.spread = 1
        self.head = head
        self._shape = target.shape
        self._layers = sum(name.endswith("ffn_up.weight") for name in weights)
        self._embeddings = torch.from_numpy(target.embeddings()).to(device)
        self._rotary = Rotary(target.shape, device)

    def loss(self, batch: Batch, random: np.random.Generator) -> Tensor:
        """Every row that the target wrote a token after counts once."""
        rows = batch.anchors[0] + 1
        states = self.final_states(batch)[rows]
        goals = self.head.goals(batch, rows, random)
        every = torch.arange(len(rows), device=rows.device)
        ones = torch.ones(len(rows), device=rows.device)
        total = soft_cross_entropy(states, self.head.rows[goals.rows], goals, every, ones)
        return total / len(rows)

    @torch.no_grad()
    def drafts(self, batch: Batch) -> Drafts:
        """Position j of anchor t is what the model says after row t + j of the document."""
        first = batch.anchors[0] + 1
        best = torch.full_like(batch.tokens, -1)
        best[first] = self.head.token_ids[
            best_rows(self.final_states(batch)[first], self.head.rows)
        ]
        return collect_drafts(
            batch, [best[anchors + 1 + j] for j, anchors in enumerate(batch.anchors)]
        )

    def final_states(self, batch: Batch) -> Tensor:
        """Of every row, after the last norm [rows, hidden]."""
        epsilon = self._shape.epsilon
        positions = row_positions(batch.starts, batch.tokens.device)
        state = self._embeddings[batch.tokens].float()
        for layer in range(self._layers):
            prefix = f"blk.{layer}."
            inner = rms_norm(state, self.parameters[f"{prefix}attn_norm.weight"], epsilon)
            queries = self._heads(inner, f"{prefix}attn_q", self._shape.heads)
            keys = self._heads(inner, f"{prefix}attn_k", self._shape.kv_heads)
            values = self._heads(inner, f"{prefix}attn_v", self._shape.kv_heads)
            mixed = causal_attention(
                self._rotary(queries, positions),
                self._rotary(keys, positions),
                values,
                batch.starts,
            )
            output = self.parameters[f"{prefix}attn_output.weight"]
            state = state + functional.linear(mixed, output)
            inner = rms_norm(state, self.parameters[f"{prefix}ffn_norm.weight"], epsilon)
            state = state + feed_forward(inner, self.parameters, prefix)
        return rms_norm(state, self.parameters["output_norm.weight"], epsilon)

    def _heads(self, rows: Tensor, name: str, heads: int) -> Tensor:
        bias = self.parameters.get(f"{name}.bias")
        made = functional.linear(rows, self.parameters[f"{name}.weight"], bias)
        return made.view(len(rows), heads, self._shape.head_width)
