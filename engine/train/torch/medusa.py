"""Medusa heads in training (Cai et al. 2024, arXiv 2401.10774, "Medusa-1": the target is frozen).

Head i reads the target's final hidden state h of row t and names the token at t + 2 + i: some
blocks h + SiLU(W h + b), then rows of the target's head, frozen and shared, or rows of its own.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import Tensor

from engine.train.heldout import Drafts
from engine.train.torch.batches import Batch, Features
from engine.train.torch.layers import best_rows
from engine.train.torch.loss import soft_cross_entropy
from engine.train.torch.student import DECAY, DraftHead, chain_loss, collect_drafts, learnable

LEARNING_RATE = 1e-3


def initial_weights(
    hidden: int, heads: int, blocks: int, own_rows: NDArray[np.float32] | None = None
) -> dict[str, NDArray[np.float32]]:
    """By the published names. Blocks are zero: every head starts as the target's own.

    own_rows: what each head's rows start as, None to share the target's.
    """
    weights: dict[str, NDArray[np.float32]] = {}
    for head in range(heads):
        for block in range(blocks):
            weights[f"{head}.{block}.linear.weight"] = np.zeros((hidden, hidden), np.float32)
            weights[f"{head}.{block}.linear.bias"] = np.zeros(hidden, np.float32)
        if own_rows is not None:
            weights[f"{head}.{blocks}.weight"] = own_rows
    return weights


class MedusaStudent:
    """weights: see initial_weights. head: rows of the target's, used where a head has none."""

    features = Features(hidden=True)

    def __init__(
        self,
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

    def loss(self, batch: Batch, random: np.random.Generator) -> Tensor:
        states = self.final_states(batch)
        if self.own_rows(0) is None:
            return chain_loss(batch, states, self.head, random)
        total, weight = torch.zeros((), device=states[0].device), 0.0
        for position, (anchors, part) in enumerate(zip(batch.anchors, states, strict=True)):
            own = self.own_rows(position)
            if own is None or not len(anchors):
                continue
            goals = self.head.goals(batch, anchors + 1 + position, random)
            at = torch.arange(len(anchors), device=anchors.device)
            each = torch.full((len(anchors),), DECAY**position, device=anchors.device)
            rows = functional.embedding(goals.rows, own)
            total = total + soft_cross_entropy(part, rows, goals, at, each)
            weight += DECAY**position * len(anchors)
        return total / weight

    @torch.no_grad()
    def drafts(self, batch: Batch) -> Drafts:
        drafted = []
        for position, states in enumerate(self.final_states(batch)):
            own = self.own_rows(position)
            rows = best_rows(states, self.head.rows if own is None else own)
            drafted.append(self.head.token_ids[rows])
        return collect_drafts(batch, drafted)

    def own_rows(self, head: int) -> Tensor | None:
        block = 0
        while f"{head}.{block}.linear.weight" in self.parameters:
            block += 1
        return self.parameters.get(f"{head}.{block}.weight")

    def final_states(self, batch: Batch) -> list[Tensor]:
        """Of each head, after its blocks [anchors[head], hidden]."""
        if batch.hidden is None:
            raise ValueError("Medusa heads read the target's final hidden state")
        found = []
        for head in range(self.positions):
            state = batch.hidden[batch.anchors[head]]
            block = 0
            while (name := f"{head}.{block}.linear.weight") in self.parameters:
                bias = self.parameters[f"{head}.{block}.linear.bias"]
                state = state + functional.silu(
                    functional.linear(state, self.parameters[name], bias)
                )
                block += 1
            found.append(state)
        return found
