"""Typical acceptance (Cai et al. 2024, arXiv 2401.10774, 3.3.2): keeps more, changes the text.

The one rule here whose text does not follow the target's distribution, so it is used only where it
was asked for by name, and what it wrote is labelled. With temperature 0 it is greedy decoding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.maths.distribution import Distribution
from engine.maths.proposal import ROOT, Proposal

FLOOR = 0.09
"""A token that is likelier than this is always kept (the paper's epsilon, as its code sets it)."""

ENTROPY_SHARE = 0.3
"""Of exp(-entropy), which less likely tokens must exceed where p is flat (its delta)."""


def is_typical(p: Distribution, token: int) -> bool:
    """p(token) > min(epsilon, delta exp(-H(p))), H in nats."""
    mass = p.probabilities
    entropy = -float((mass * np.log(mass)).sum())
    return p.probability(token) > min(FLOOR, ENTROPY_SHARE * math.exp(-entropy))


def typical_path(proposal: Proposal, targets: Sequence[Distribution]) -> tuple[int, ...]:
    """Nodes of the longest path of typical tokens; of several, the likeliest one.

    targets: p after the last token of the context, then p after each node.
    """
    kept = {ROOT: (0, 0.0)}  # length of the path and its log-probability
    for node, (token, parent) in enumerate(zip(proposal.tokens, proposal.parents, strict=True)):
        p = targets[parent + 1]
        if parent in kept and is_typical(p, token):
            length, likelihood = kept[parent]
            kept[node] = (length + 1, likelihood + math.log(p.probability(token)))
    best = max(kept, key=lambda node: kept[node])
    return proposal.path(best)
