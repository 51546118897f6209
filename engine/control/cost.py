"""What passes cost on this machine: T(n) of the target, and the draft step of each drafter.

T(n) is not smooth (kernels work in groups of rows), so it is kept per width and only filled in
between measured widths.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from engine.control.tuning import TUNING, CostTuning
from engine.data.draft_cost import DraftCost


class CostModel:
    """Seconds. Starts from measured pass times and follows what later rounds really took.

    A machine that others use as well slows all passes alike: that is learned quickly, as one
    factor, so that widths seen rarely keep their proportion; the time of one width relative to the
    others moves slowly.
    """

    def __init__(
        self,
        pass_seconds: Mapping[int, float],
        seconds_per_cached: Mapping[int, float] | None = None,
        drafters: Mapping[str, DraftCost] | None = None,
        tuning: CostTuning = TUNING.cost,
    ) -> None:
        """pass_seconds: T(n) by width n; must hold T(1). seconds_per_cached: what every cached
        token adds to T(n)."""
        if 1 not in pass_seconds:
            raise ValueError("the cost model needs T(1)")
        self._tuning = tuning
        self._pass = dict(pass_seconds)
        self._per_cached = dict(seconds_per_cached or {})
        self._drafters = dict(drafters or {})
        self._measured = dict(pass_seconds)
        self._seen: dict[int, int] = {}
        self._slowness = 1.0
        self._plain_ratio = 1.0  # recent T(1) over what the table says
        self._position = 0
        self._row = 0.0

    def move_to(self, position: int) -> None:
        """position: tokens in the cache; later answers are for passes after them."""
        self._position = position

    def pass_seconds(self, width: int) -> float:
        """T(width) with what the loop itself takes per row beyond the first."""
        return self._slowness * self._table(width) + (width - 1) * self._row

    def recent_seconds(self, width: int) -> float:
        """pass_seconds, but with the recent T(1): limited by memory bandwidth, it can be slowed by
        other programs alone, and faster than the table follows."""
        return self.pass_seconds(width) * (self._plain_ratio if width == 1 else 1.0)

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
        """Reading one token of the text before drafting."""
        return self._slowness * self._cost(drafter).token

    def _cost(self, drafter: str) -> DraftCost:
        return self._drafters.get(drafter, DraftCost(0.0))

    def learn_pass(self, width: int, seconds: float) -> None:
        expected = self._slowness * self._table(width)
        tuning, ratio = self._tuning, self._clipped(seconds / expected)
        if width == 1:
            self._plain_ratio += tuning.plain_weight * (ratio - self._plain_ratio)
        self._slowness *= ratio**tuning.speed_weight
        self._seen[width] = self._seen.get(width, 0) + 1
        weight = tuning.table_weight if width in self._measured else tuning.new_width_weight
        self._pass[width] = between(self._pass, width) * ratio**weight

    def learn_rows(self, width: int, seconds: float) -> None:
        """What the loop took besides the passes, in a round of this width."""
        if width > 1:
            row = min(seconds / width, self._tuning.largest_row * self.pass_seconds(1))
            self._row += self._tuning.row_weight * (row - self._row)

    def learn_draft(self, drafter: str, seconds: float, steps: int, behind: int) -> None:
        """A round's drafting: `steps` draft steps, after reading `behind` tokens of the text."""
        cost, seconds = self._cost(drafter), seconds / self._slowness
        if behind > self._tuning.few_tokens:
            token = max(0.0, seconds - steps * cost.step) / behind
            self._drafters[drafter] = DraftCost(cost.step, self._blend(cost.token, token))
        elif steps:
            self._drafters[drafter] = DraftCost(self._blend(cost.step, seconds / steps), cost.token)

    @property
    def has_drifted(self) -> bool:
        """The proportions seen are no longer the measured ones: time to measure again."""
        base = self._pass[1] / self._measured[1]
        most = self._tuning.drift
        return any(
            count >= self._tuning.drift_passes
            and width in self._measured
            and not 1 / most < self._pass[width] / self._measured[width] / base < most
            for width, count in self._seen.items()
        )

    def _blend(self, known: float, seen: float) -> float:
        """A moving average in which an outlier counts for little."""
        if known == 0.0:
            return seen
        ratio = self._clipped(seen / known)
        return known + self._tuning.draft_weight * (ratio * known - known)

    def _clipped(self, ratio: float) -> float:
        return min(max(ratio, 1.0 / self._tuning.outlier), self._tuning.outlier)


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
        fraction = (width - below) / (above - below)
        return table[below] + fraction * (table[above] - table[below])
    slope = (table[below] - table[1]) / (below - 1) if below > 1 else table[1]
    return table[below] + (width - below) * slope
