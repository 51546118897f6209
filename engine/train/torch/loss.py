"""Soft cross-entropy against the target's likeliest tokens, over a sample of the head's rows.

A drafter's head has thousands of rows, and multiplying by all of them would be most of the work.
The rows of all likely tokens of the batch are always there; of the others a few are drawn and
count for all (importance sampling of the partition function, Bengio & Senecal 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

LEAST_PROBABILITY = 1e-3
"""Tokens less likely than that are not worth a row of the head."""


@dataclass(frozen=True, slots=True)
class Goals:
    """places [n, k]: index of each likely token among the candidates. weights [n, k]: p of it.

    rows [candidates]: of the head. offsets [candidates]: added to the logits; log of how many
    rows a candidate stands for.
    """

    places: Tensor
    weights: Tensor
    rows: Tensor
    offsets: Tensor


def make_goals(
    top_rows: Tensor, top_probs: Tensor, size: int, negatives: int, random: np.random.Generator
) -> Goals:
    """top_rows [n, k]: row of each likely token in the head, -1 for tokens it does not have.

    size: rows of the head. Mass on tokens that the head lacks is not learned, and not moved.
    """
    known = (top_rows >= 0) & (top_probs >= LEAST_PROBABILITY)
    weights = torch.where(known, top_probs, torch.zeros_like(top_probs))
    safe = torch.where(known, top_rows, top_rows.clamp_min(0).amax())
    positives, places = torch.unique(safe, return_inverse=True)
    drawn = np.setdiff1d(
        random.integers(0, size, negatives), positives.cpu().numpy(), assume_unique=False
    )
    others = size - len(positives)
    count = min(len(drawn), others)
    offsets = torch.zeros(len(positives) + count, device=top_rows.device)
    if count:
        offsets[len(positives) :] = float(np.log(others / count))
    rows = torch.cat([positives, torch.from_numpy(drawn[:count]).to(top_rows.device)])
    return Goals(places, weights, rows, offsets)


def soft_cross_entropy(
    states: Tensor, head: Tensor, goals: Goals, at: Tensor, row_weights: Tensor
) -> Tensor:
    """Sum over rows of weight x cross-entropy.

    states [m, hidden]; head [candidates, hidden]; at [m]: which row of the goals each state is
    for; row_weights [m].
    """
    logits = (states @ head.t()).float() + goals.offsets
    total = torch.logsumexp(logits, dim=1)
    weights = goals.weights[at]
    picked = logits.gather(1, goals.places[at])
    each = weights.sum(1) * total - (weights * picked).sum(1)
    return torch.dot(each, row_weights)
