"""How far it pays to draft: an optimal stopping problem, solved for what is known at present.

A draft goes on one look at a time. A look costs a draft step and tells how sure the drafter is;
then its token may join the pass, or the draft ends. Solved backwards from the deepest token over
the chance that the path so far is kept, so steps in T(n) are looked across: a token that costs
much is taken if the next ones, nearly free, make up for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.control.acceptance_estimator import DEPTHS

_LOG_STEP = 0.12
_CELLS = 40  # the last one stands for paths kept with a chance of 1 % and less
_PATHS = np.exp(-_LOG_STEP * np.arange(_CELLS))


@dataclass(frozen=True, slots=True)
class DraftCosts:
    """Seconds. added: by the token at depth i + 1 to the pass. step: of one look.

    price: what a token is worth, the time that one takes at present.
    """

    added: tuple[float, ...]
    step: float
    price: float


class DraftPlan:
    """Expected seconds saved, by depth and by the chance that the path so far is kept."""

    def __init__(
        self, costs: DraftCosts, chances: NDArray[np.float64], shares: NDArray[np.float64]
    ) -> None:
        """chances: kept, [DEPTHS, bins]; shares: of looks, [first or later, bins]."""
        self._costs = costs
        depths = len(costs.added)
        looked = np.zeros((depths + 1, _CELLS))
        for depth in range(depths - 1, -1, -1):
            chance = chances[min(depth, DEPTHS - 1)]
            kept = _PATHS[:, None] * chance
            further = np.maximum(looked[depth + 1], 0.0)[_cells_below(chance)]
            gain = kept * costs.price - costs.added[depth] + further
            looked[depth] = np.maximum(gain, 0.0) @ shares[min(depth, 1)] - costs.step
        looked[:, -1] = np.minimum(looked[:, -1], 0.0)
        self._looked = looked

    def step_value(self, depth: int, path_chance: float) -> float:
        """Of looking at one more token below `depth` tokens that are kept with path_chance."""
        if depth >= len(self._costs.added):
            return 0.0
        return float(self._looked[depth, _cell(path_chance)])

    def add_value(self, depth: int, path_chance: float) -> float:
        """Of the token at `depth` (from 1) and what may follow; path_chance: with it."""
        if depth > len(self._costs.added):
            return 0.0
        own = path_chance * self._costs.price - self._costs.added[depth - 1]
        return own + max(0.0, self.step_value(depth, path_chance))

    @property
    def start_value(self) -> float:
        return self.step_value(0, 1.0)


def _cell(path_chance: float) -> int:
    if path_chance <= _PATHS[-1]:
        return _CELLS - 1
    return round(-math.log(path_chance) / _LOG_STEP)


def _cells_below(chance: NDArray[np.float64]) -> NDArray[np.intp]:
    """The cell of every path when its next token is kept with these chances [cells, bins]."""
    down = np.rint(-np.log(np.maximum(chance, 1e-9)) / _LOG_STEP).astype(np.intp)
    return np.asarray(np.minimum(np.arange(_CELLS)[:, None] + down, _CELLS - 1))
