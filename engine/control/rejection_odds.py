"""Whether more is rejected in the text at hand than a record of all texts let expect."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_RECENT = 0.97  # of a token, when one more was judged
_USUAL_WEIGHT = 3.0  # in rejected tokens
_LARGEST = 4.0

Chance = TypeVar("Chance", float, NDArray[np.float64])


class RejectionOdds:
    """The factor of the odds of rejection: above 1 in a text that is harder than others."""

    def __init__(self, at_first: float = 1.0) -> None:
        """at_first: the factor as long as nothing is known of a text."""
        self._at_first = at_first
        self._rejected = self._awaited = 0.0  # of late: tokens, and what was expected

    def begin_text(self) -> None:
        """Another text: what was rejected of late says nothing about it."""
        self._rejected = self._awaited = 0.0

    def learn(self, usual: float, kept: float) -> None:
        """Of a token: its chance to be kept in any text, and whether (or how likely) it was."""
        self._rejected = _RECENT * self._rejected + 1.0 - kept
        self._awaited = _RECENT * self._awaited + 1.0 - usual

    @property
    def factor(self) -> float:
        supposed = _USUAL_WEIGHT * self._at_first
        ratio = (self._rejected + supposed) / (self._awaited + _USUAL_WEIGHT)
        return min(max(ratio, 1.0 / _LARGEST), _LARGEST)

    def applied(self, usual: Chance) -> Chance:
        """Chances in this text; never certain unless they were."""
        return usual / (usual + self.factor * (1.0 - usual))
