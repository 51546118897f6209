"""What every kind of drafter gives the training loop, and the loss they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.train.heldout import Drafts
from engine.train.torch.batches import Batch, Features
from engine.train.torch.loss import Goals, make_goals, soft_cross_entropy

DECAY = 0.8
"""Weight of each position relative to the one before (Medusa section 2.2, EAGLE-3 code)."""
NEGATIVES = 512


class Student(Protocol):
    """parameters: what is learned, by the names that are written. rate: learning rate. spread: of
    samples to measure on, large where a row costs little beside an anchor (see heldout_sample).
    """

    parameters: dict[str, Tensor]
    features: Features
    positions: int
    rate: float
    spread: int

    def loss(self, batch: Batch, random: np.random.Generator) -> Tensor: ...

    def drafts(self, batch: Batch) -> Drafts: ...


def learnable(weights: dict[str, NDArray[np.float32]], device: torch.device) -> dict[str, Tensor]:
    """Copies of the weights on the device, with gradients."""
    return {
        name: torch.from_numpy(np.array(value)).to(device).requires_grad_()
        for name, value in weights.items()
    }


class DraftHead:
    """The frozen matrix to the tokens that a drafter knows.

    rows [tokens, hidden]; token_ids: target id of each row; places [vocabulary]: the reverse, -1
    for tokens without a row.
    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        token_ids: NDArray[np.int64],
        places: NDArray[np.int64],
        device: torch.device,
    ) -> None:
        self.rows = torch.from_numpy(rows).to(device)
        self.token_ids = torch.from_numpy(token_ids).to(device)
        self.places = torch.from_numpy(places).to(device)

    def goals(self, batch: Batch, at: Tensor, random: np.random.Generator) -> Goals:
        """Goals of the rows `at` of the batch."""
        return make_goals(
            self.places[batch.top_ids[at]],
            batch.top_probs[at],
            len(self.rows),
            NEGATIVES,
            random,
        )


def chain_loss(
    batch: Batch, states: Sequence[Tensor], head: DraftHead, random: np.random.Generator
) -> Tensor:
    """Mean over positions and anchors, later positions counting less.

    states[j] [anchors[j], hidden]: after the drafter's last norm. Position j + 1 of anchor t
    learns what the target says after row t + 1 + j.
    """
    rows = [anchors + 1 + j for j, anchors in enumerate(batch.anchors)]
    used, at = torch.unique(torch.cat(rows), return_inverse=True)
    goals = head.goals(batch, used, random)
    weights = torch.cat(
        [torch.full((len(part),), DECAY**j, device=part.device) for j, part in enumerate(rows)]
    )
    total = soft_cross_entropy(torch.cat(list(states)), head.rows[goals.rows], goals, at, weights)
    return total / weights.sum()


def collect_drafts(batch: Batch, drafted: Sequence[Tensor]) -> Drafts:
    """drafted[j]: token ids for anchors[j]."""
    first = batch.anchors[0]
    shape = (len(first), len(drafted))
    table = {name: np.full(shape, -1, np.int64) for name in ("drafted", "chosen", "written")}
    for j, (anchors, tokens) in enumerate(zip(batch.anchors, drafted, strict=True)):
        places = torch.searchsorted(first, anchors).cpu().numpy()
        table["drafted"][places, j] = tokens.cpu().numpy()
        table["chosen"][places, j] = batch.top_ids[anchors + 1 + j, 0].cpu().numpy()
        table["written"][places, j] = batch.tokens[anchors + 2 + j].cpu().numpy()
    return Drafts(table["drafted"], table["chosen"], table["written"])
