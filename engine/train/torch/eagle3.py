"""An EAGLE-3 drafter in training (Li et al. 2025, arXiv 2503.01840).

One decoder layer. Entry P pairs the token at P + 1 with the state of position P, made of three of
the target's layer inputs; what comes out is the state of the next draft step. Training unrolls
those steps on the drafter's own states ("training-time test").
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import Tensor

from engine.train.heldout import Drafts
from engine.train.target_weights import TargetWeights
from engine.train.torch.batches import Batch, Features, thinned
from engine.train.torch.layers import (
    Chain,
    Rotary,
    anchored_attention,
    best_rows,
    feed_forward,
    rms_norm,
    row_positions,
)
from engine.train.torch.student import DraftHead, chain_loss, collect_drafts, learnable
from engine.train.trainable import LAYER_MATRICES

LEARNING_RATE = 1.2e-3
_FRESH = 0.02  # standard deviation of weights that the target has nothing for
_BLOCK = "blk.0."


def initial_weights(target: TargetWeights, seed: int) -> dict[str, NDArray[np.float32]]:
    """The target's last layer, its state taken from the last of the three layers.

    By the names and shapes of llama.cpp's `eagle3` architecture. The half of q, k and v that
    reads the token's embedding starts small and random.
    """
    random = np.random.default_rng(seed)
    shape, last = target.shape, f"blk.{target.layers - 1}."
    hidden = shape.hidden

    def fresh(rows: int, columns: int) -> NDArray[np.float32]:
        return (_FRESH * random.standard_normal((rows, columns))).astype(np.float32)

    fused = 0.01 * fresh(hidden, 3 * hidden)
    fused[:, 2 * hidden :] += np.eye(hidden, dtype=np.float32)
    weights = {"fc.weight": fused, "output_norm.weight": target.tensor("output_norm.weight")}
    for name in ("attn_norm", "attn_norm_2"):
        weights[f"{_BLOCK}{name}.weight"] = target.tensor(f"{last}attn_norm.weight")
    weights[f"{_BLOCK}ffn_norm.weight"] = target.tensor(f"{last}ffn_norm.weight")
    for name in LAYER_MATRICES:
        matrix = target.tensor(f"{last}{name}.weight")
        if name in ("attn_q", "attn_k"):
            heads = shape.heads if name == "attn_q" else shape.kv_heads
            if target.has(f"{last}{name}_norm.weight"):
                norm = target.tensor(f"{last}{name}_norm.weight")
                matrix = with_head_norm(matrix, norm, weights[f"{_BLOCK}attn_norm_2.weight"])
            matrix = target.interleaved(matrix, heads)
        if name in ("attn_q", "attn_k", "attn_v"):
            matrix = np.concatenate([fresh(*matrix.shape), matrix], axis=1)
        weights[f"{_BLOCK}{name}.weight"] = matrix
    return weights


def with_head_norm(
    matrix: NDArray[np.float32], norm: NDArray[np.float32], inner: NDArray[np.float32]
) -> NDArray[np.float32]:
    """q or k with the norm of its heads put in at its usual size: an EAGLE-3 layer has none.

    matrix [heads x width, hidden]; norm [width]; inner [hidden]: weight of the norm before it,
    whose outputs are taken as uncorrelated.
    """
    squares = ((matrix * inner) ** 2).sum(axis=1).reshape(-1, len(norm))
    scale = norm / np.sqrt(squares.mean(axis=1, keepdims=True))
    joined: NDArray[np.float32] = (matrix * scale.reshape(-1, 1)).astype(np.float32)
    return joined


class Eagle3Student:
    """weights: see initial_weights. head: frozen rows of the target's.

    deep_share: of the anchors of a training batch, those that go beyond the first step. Later
    steps learn from fewer of them, and the first step sees more text in the same time.
    """

    features = Features(layers=True)

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
        self.spread = 4
        self.head = head
        self.deep_share = 1.0
        self._shape = target.shape
        self._embeddings = torch.from_numpy(target.embeddings()).to(device)
        self._rotary = Rotary(target.shape, device)

    def loss(self, batch: Batch, random: np.random.Generator) -> Tensor:
        if self.deep_share < 1.0:
            batch = thinned(batch, self.deep_share, random)
        return chain_loss(batch, self.final_states(batch), self.head, random)

    @torch.no_grad()
    def drafts(self, batch: Batch) -> Drafts:
        rows = [best_rows(states, self.head.rows) for states in self.final_states(batch)]
        return collect_drafts(batch, [self.head.token_ids[part] for part in rows])

    def final_states(self, batch: Batch) -> list[Tensor]:
        """Of each step, after the last norm [anchors[step], hidden]."""
        if batch.layers is None:
            raise ValueError("EAGLE-3 reads the target's layer inputs")
        weights, epsilon = self.parameters, self._shape.epsilon
        # What is carried on from step to step stays in float32, whatever products are made in.
        state = functional.linear(batch.layers, weights["fc.weight"]).float()
        following = torch.roll(batch.tokens, -1)  # a document's last row is never an anchor
        positions = row_positions(batch.starts, batch.tokens.device)
        joined = self._joined(following, state)
        keys, values = self._keys(joined, positions), self._values(joined)
        found: list[Tensor] = []
        chain: Chain | None = None
        rows = batch.anchors[0]
        for step in range(self.positions):
            anchors = batch.anchors[step]
            kept = torch.searchsorted(rows, anchors)
            if step == 0:
                state, joined = state[anchors], joined[anchors]
            else:
                state = state[kept]
                joined = self._joined(batch.tokens[anchors + 1 + step], state)
                chain = self._grown(chain, kept, joined, positions[anchors] + step)
            queries = self._heads(joined, "attn_q", self._shape.heads)
            queries = self._rotary(queries, positions[anchors] + step)
            places = _places(batch, anchors)
            mixed = anchored_attention(queries, keys, values, chain, places)
            state = state + functional.linear(mixed, weights[f"{_BLOCK}attn_output.weight"])
            inner = rms_norm(state, weights[f"{_BLOCK}ffn_norm.weight"], epsilon)
            state = state + feed_forward(inner, weights, _BLOCK)
            found.append(rms_norm(state, weights["output_norm.weight"], epsilon))
            rows = anchors
        return found

    def _joined(self, tokens: Tensor, state: Tensor) -> Tensor:
        """[rows, 2 x hidden]: the normed embedding, then the normed state."""
        weights, epsilon = self.parameters, self._shape.epsilon
        embedded = self._embeddings[tokens].float()
        return torch.cat(
            [
                rms_norm(embedded, weights[f"{_BLOCK}attn_norm.weight"], epsilon),
                rms_norm(state, weights[f"{_BLOCK}attn_norm_2.weight"], epsilon),
            ],
            dim=1,
        )

    def _heads(self, joined: Tensor, name: str, heads: int) -> Tensor:
        rows = functional.linear(joined, self.parameters[f"{_BLOCK}{name}.weight"])
        return rows.view(len(rows), heads, self._shape.head_width)

    def _keys(self, joined: Tensor, positions: Tensor) -> Tensor:
        return self._rotary(self._heads(joined, "attn_k", self._shape.kv_heads), positions)

    def _values(self, joined: Tensor) -> Tensor:
        return self._heads(joined, "attn_v", self._shape.kv_heads)

    def _grown(self, chain: Chain | None, kept: Tensor, joined: Tensor, positions: Tensor) -> Chain:
        keys, values = self._keys(joined, positions)[:, None], self._values(joined)[:, None]
        if chain is None:
            return Chain(keys, values)
        return Chain(
            torch.cat([chain.keys[kept], keys], dim=1),
            torch.cat([chain.values[kept], values], dim=1),
        )


def _places(batch: Batch, anchors: Tensor) -> list[tuple[slice, slice, Tensor]]:
    """For each document with anchors: its anchors, its rows up to the last one, and the mask."""
    borders = torch.searchsorted(anchors, torch.tensor(batch.starts, device=anchors.device))
    places = []
    for index, start in enumerate(batch.starts[:-1]):
        first, last = int(borders[index]), int(borders[index + 1])
        if first == last:
            continue
        own = anchors[first:last] - start
        rows = int(own[-1]) + 1
        hidden = torch.arange(rows, device=anchors.device) > own[:, None]
        mask = torch.zeros(hidden.shape, device=anchors.device).masked_fill_(hidden, -torch.inf)
        places.append((slice(first, last), slice(start, start + rows), mask))
    return places
