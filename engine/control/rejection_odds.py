"""Whether more tokens are rejected in this text than the record of all texts predicts."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.control.tuning import TUNING, OddsTuning

Probability = TypeVar("Probability", float, NDArray[np.float64])


class RejectionOdds:
    """The odds ratio of rejection, this text against all texts: above 1 in a harder text."""

    def __init__(self, at_first: float = 1.0, tuning: OddsTuning = TUNING.odds) -> None:
        """at_first: the odds ratio at the start of a text, when nothing is known of it."""
        self._at_first = at_first
        self._tuning = tuning
        self._rejected = self._expected = 0.0  # tokens, recent ones count more

    def begin_text(self) -> None:
        """Another text: earlier rejections say nothing about it."""
        self._rejected = self._expected = 0.0

    def learn(self, usual: float, kept: float) -> None:
        """A token was judged. usual: the probability that it is kept, over all texts. kept: whether
        it was kept, or how probable that was."""
        memory = self._tuning.memory
        self._rejected = memory * self._rejected + 1.0 - kept
        self._expected = memory * self._expected + 1.0 - usual

    @property
    def factor(self) -> float:
        weight, largest = self._tuning.prior_weight, self._tuning.largest
        ratio = (self._rejected + weight * self._at_first) / (self._expected + weight)
        return min(max(ratio, 1.0 / largest), largest)

    def applied(self, usual: Probability) -> Probability:
        """Acceptance probabilities in this text; 0 and 1 stay as they are."""
        return usual / (usual + self.factor * (1.0 - usual))
