"""How far it pays to draft: an optimal stopping problem, solved for present costs and statistics.

A draft grows one step at a time. A draft step costs time and yields the drafter's confidence; then
its token joins the target's pass, or the draft ends. Solved backwards from the deepest token, over
the probability that the path so far is kept. So jumps in T(n) are no obstacle: an expensive token
is taken if the next ones, nearly free, make up for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.control.acceptance_estimator import DEPTHS

_LOG_STEP = 0.12  # between cells: neighbours differ by 12 %
_CELLS = 40  # the last one is for all paths that are kept with a probability below 1 %
_PATHS = np.exp(-_LOG_STEP * np.arange(_CELLS))


@dataclass(frozen=True, slots=True)
class DraftCosts:
    """Seconds. added: by the token at depth i + 1 to the pass. step: of one draft step.

    value: of a token, the seconds that one takes at present.
    """

    added: tuple[float, ...]
    step: float
    value: float


class DraftPlan:
    """Expected seconds saved, by depth and by the probability that the path so far is kept."""

    def __init__(
        self, costs: DraftCosts, kept: NDArray[np.float64], fractions: NDArray[np.float64]
    ) -> None:
        """kept: probabilities [DEPTHS, bins]; fractions: of draft steps [first or later, bins]."""
        self._costs = costs
        depths = len(costs.added)
        stepped = np.zeros((depths + 1, _CELLS))
        for depth in range(depths - 1, -1, -1):
            token = kept[min(depth, DEPTHS - 1)]
            path = _PATHS[:, None] * token
            further = np.maximum(stepped[depth + 1], 0.0)[_cells_below(token)]
            gain = path * costs.value - costs.added[depth] + further
            stepped[depth] = np.maximum(gain, 0.0) @ fractions[min(depth, 1)] - costs.step
        stepped[:, -1] = np.minimum(stepped[:, -1], 0.0)
        self._stepped = stepped

    def step_value(self, depth: int, path_probability: float) -> float:
        """Of one more draft step below `depth` tokens that are kept with path_probability."""
        if depth >= len(self._costs.added):
            return 0.0
        return float(self._stepped[depth, _cell(path_probability)])

    def add_value(self, depth: int, path_probability: float) -> float:
        """Of the token at `depth` (from 1) and what may follow; path_probability: with it."""
        if depth > len(self._costs.added):
            return 0.0
        own = path_probability * self._costs.value - self._costs.added[depth - 1]
        return own + max(0.0, self.step_value(depth, path_probability))

    @property
    def start_value(self) -> float:
        return self.step_value(0, 1.0)


def _cell(path_probability: float) -> int:
    if path_probability <= _PATHS[-1]:
        return _CELLS - 1
    return round(-math.log(path_probability) / _LOG_STEP)


def _cells_below(kept: NDArray[np.float64]) -> NDArray[np.intp]:
    """The cell of every path when its next token is kept with these probabilities [cells, bins]."""
    down = np.rint(-np.log(np.maximum(kept, 1e-9)) / _LOG_STEP).astype(np.intp)
    return np.asarray(np.minimum(np.arange(_CELLS)[:, None] + down, _CELLS - 1))
