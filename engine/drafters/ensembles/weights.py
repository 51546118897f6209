"""What each member of an ensemble is worth, learned from the target's verified distributions.

The target's distribution tells how every member would have done, used or not, so every member
that was asked learns in every round (full information).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.drafters.base import Observation
from engine.maths.acceptance import agreement
from engine.maths.distribution import Distribution
from engine.maths.proposal import ROOT, MemberPrediction

_RATE = 0.2
_MEMORY = 0.99


class MemberWeights:
    """Exponential weights (Freund, Schapire 1997) that forget, for members that may abstain.

    Only the members that were asked at the same position compete there (specialists: Freund,
    Schapire, Singer, Warmuth 1997), so abstaining costs and earns nothing.
    """

    def __init__(self, members: Sequence[str]) -> None:
        self._scores = dict.fromkeys(members, 0.0)

    def weights(self, members: Sequence[str]) -> list[float]:
        """Positive, sum 1."""
        best = max(self._scores[member] for member in members)
        values = [math.exp(self._scores[member] - best) for member in members]
        return [value / sum(values) for value in values]

    def learn(self, rewards: Mapping[str, float]) -> None:
        """rewards: of the members asked at one position of the text, each about 0..1."""
        members = list(rewards)
        weights = self.weights(members)
        mean = sum(w * rewards[m] for w, m in zip(weights, members, strict=True))
        for member in members:
            self._scores[member] = _MEMORY * self._scores[member] + _RATE * (rewards[member] - mean)


def verified_predictions(
    observation: Observation,
) -> list[tuple[Distribution, list[MemberPrediction]]]:
    """The predictions of the positions on the accepted path, each with the target's p there."""
    positions = []
    for depth, p in enumerate(observation.targets):
        node = ROOT if depth == 0 else observation.accepted_path[depth - 1]
        predictions = [b for b in observation.proposal.predictions if b.parent == node]
        if predictions:
            positions.append((p, predictions))
    return positions


def agreements(p: Distribution, predictions: Sequence[MemberPrediction]) -> dict[str, float]:
    """Member to the probability that the target would have kept its token."""
    return {prediction.drafter: agreement(prediction, p) for prediction in predictions}
