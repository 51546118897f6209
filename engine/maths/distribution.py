"""A probability distribution over a few tokens: what is left of a row after truncation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Sparse distribution.

    ids: [n] int64, strictly ascending token ids. probabilities: [n] float64, positive, sum 1.
    """

    ids: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    @staticmethod
    def point_mass(token: int) -> Distribution:
        return Distribution(np.array([token], np.int64), np.ones(1))

    def probability(self, token: int) -> float:
        """The token's probability, 0 outside the support."""
        index = int(np.searchsorted(self.ids, token))
        if index < len(self.ids) and self.ids[index] == token:
            return float(self.probabilities[index])
        return 0.0

    def probability_of(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probabilities of many tokens at once, [n] in, [n] out."""
        indices = np.minimum(np.searchsorted(self.ids, tokens), len(self.ids) - 1)
        return np.where(self.ids[indices] == tokens, self.probabilities[indices], 0.0)

    def draw(self, uniform: float) -> int:
        """Inverse-CDF sample; uniform in [0, 1)."""
        if len(self.ids) == 1:
            return int(self.ids[0])
        cumulative = np.cumsum(self.probabilities)
        index = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
        return int(self.ids[min(index, len(self.ids) - 1)])

    def most_likely(self) -> int:
        return int(self.ids[int(np.argmax(self.probabilities))])
