"""What a pass costs on this machine: T(n) for the target, the draft step of each drafter.

T(n) is not smooth (kernels work in groups of rows), so it is kept per width and only filled in
between measured widths.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from engine.data.draft_cost import DraftCost

_SPEED_WEIGHT = 0.1
_TABLE_WEIGHT = 0.01
_NEW_WEIGHT = 0.1
_PLAIN_WEIGHT = 0.05
_OUTLIER = 3.0
_DRIFT = 1.35
_DRIFT_PASSES = 60


class CostModel:
    """Seconds. Starts from measured pass times and follows what later rounds really took.

    A machine that others use as well slows all passes alike: that is learned quickly, as one
    factor, so that widths seen rarely keep their proportion; a width's own share moves slowly.
    """

    def __init__(
        self,
        pass_seconds: Mapping[int, float],
        seconds_per_cached: Mapping[int, float] | None = None,
        drafters: Mapping[str, DraftCost] | None = None,
    ) -> None:
        """pass_seconds: T(n) by width n; must hold T(1). seconds_per_cached: what every cached
        token adds to T(n)."""
        if 1 not in pass_seconds:
            raise ValueError("the cost model needs T(1)")
        self._pass = dict(pass_seconds)
        self._per_cached = dict(seconds_per_cached or {})
        self._drafters = dict(drafters or {})
        self._measured = dict(pass_seconds)
        self._seen: dict[int, int] = {}
        self._slowness = 1.0
        self._plain_share = 1.0  # T(1) of late over what the table says
        self._position = 0
        self._row = 0.0

    def move_to(self, position: int) -> None:
        """position: tokens in the cache; later answers are for passes after them."""
        self._position = position

    def pass_seconds(self, width: int) -> float:
        """T(width) with what the loop itself takes per row beyond the first."""
        return self._slowness * self._table(width) + (width - 1) * self._row

    def recent_seconds(self, width: int) -> float:
        """pass_seconds, but T(1) as it was of late: bound by memory, it can be slowed down by other
        programs on its own, and more quickly than the table follows."""
        return self.pass_seconds(width) * (self._plain_share if width == 1 else 1.0)

    def added_seconds(self, draft_max: int) -> tuple[float, ...]:
        """What the token at each depth, from 1 to draft_max, adds to the pass."""
        passes = [self.pass_seconds(depth + 1) for depth in range(draft_max + 1)]
        return tuple(wider - narrower for narrower, wider in itertools.pairwise(passes))

    def _table(self, width: int) -> float:
        return between(self._pass, width) + self._position * between(self._per_cached, width)

    def draft_seconds(self, drafter: str) -> float:
        """One draft step; 0 until the drafter has drafted or was measured."""
        return self._slowness * self._cost(drafter).step

    def token_seconds(self, drafter: str) -> float:
        """Taking in one token of the text before drafting."""
        return self._slowness * self._cost(drafter).token

    def _cost(self, drafter: str) -> DraftCost:
        return self._drafters.get(drafter, DraftCost(0.0))

    def learn_pass(self, width: int, seconds: float) -> None:
        expected = self._slowness * self._table(width)
        ratio = min(max(seconds / expected, 1.0 / _OUTLIER), _OUTLIER)
        if width == 1:
            self._plain_share += _PLAIN_WEIGHT * (ratio - self._plain_share)
        self._slowness *= ratio**_SPEED_WEIGHT
        self._seen[width] = self._seen.get(width, 0) + 1
        new = width not in self._measured  # what was filled in is corrected faster
        self._pass[width] = between(self._pass, width) * ratio ** (
            _NEW_WEIGHT if new else _TABLE_WEIGHT
        )

    def learn_rows(self, width: int, seconds: float) -> None:
        """What the loop took besides the passes, in a round of this width."""
        if width > 1:
            row = min(seconds / width, 0.05 * self.pass_seconds(1))
            self._row += _NEW_WEIGHT * (row - self._row)

    def learn_draft(self, drafter: str, seconds: float, steps: int, behind: int) -> None:
        """A round's drafting: `steps` draft steps, after taking in `behind` tokens."""
        cost, seconds = self._cost(drafter), seconds / self._slowness
        if behind > _FEW_TOKENS:
            token = max(0.0, seconds - steps * cost.step) / behind
            self._drafters[drafter] = DraftCost(cost.step, _blend(cost.token, token))
        elif steps:
            self._drafters[drafter] = DraftCost(_blend(cost.step, seconds / steps), cost.token)

    @property
    def has_drifted(self) -> bool:
        """The proportions seen are no longer the measured ones: time to measure again."""
        base = self._pass[1] / self._measured[1]
        return any(
            count >= _DRIFT_PASSES
            and width in self._measured
            and not 1 / _DRIFT < self._pass[width] / self._measured[width] / base < _DRIFT
            for width, count in self._seen.items()
        )


_FEW_TOKENS = 4


def between(table: Mapping[int, float], width: int) -> float:
    """Measured, else a straight line between or beyond measured widths; 0 in an empty table."""
    known = table.get(width)
    if known is not None:
        return known
    if not table:
        return 0.0
    below = max(n for n in table if n < width)
    above = min((n for n in table if n > width), default=None)
    if above is not None:
        share = (width - below) / (above - below)
        return table[below] + share * (table[above] - table[below])
    slope = (table[below] - table[1]) / (below - 1) if below > 1 else table[1]
    return table[below] + (width - below) * slope


def _blend(known: float, seen: float) -> float:
    """Moves slowly, and hardly at all for an outlier: these machines are noisy."""
    if known == 0.0:
        return seen
    seen = min(max(seen, known / _OUTLIER), known * _OUTLIER)
    return known + _NEW_WEIGHT * (seen - known)
