"""What a pass costs on this machine: T(n) for the target, the draft step of each drafter.

T(n) is not smooth (kernels work in groups of rows), so it is kept per width and only filled in
between measured widths.
"""

from __future__ import annotations

from collections.abc import Mapping

_NEW_WEIGHT = 0.1
_OUTLIER = 3.0


class CostModel:
    """Seconds. Starts from measured pass times and follows what later rounds really took."""

    def __init__(self, pass_seconds: Mapping[int, float]) -> None:
        """pass_seconds: T(n) by width n; must hold T(1)."""
        if 1 not in pass_seconds:
            raise ValueError("the cost model needs T(1)")
        self._pass = dict(pass_seconds)
        self._draft: dict[str, float] = {}

    def pass_seconds(self, width: int) -> float:
        """T(width): measured, else a straight line between or beyond measured widths."""
        known = self._pass.get(width)
        if known is not None:
            return known
        below = max(n for n in self._pass if n < width)
        above = min((n for n in self._pass if n > width), default=None)
        if above is not None:
            share = (width - below) / (above - below)
            return self._pass[below] + share * (self._pass[above] - self._pass[below])
        slope = (self._pass[below] - self._pass[1]) / (below - 1) if below > 1 else self._pass[1]
        return self._pass[below] + (width - below) * slope

    def draft_seconds(self, drafter: str) -> float:
        """One draft step; 0 until the drafter has drafted."""
        return self._draft.get(drafter, 0.0)

    def learn_pass(self, width: int, seconds: float) -> None:
        known = self._pass.get(width)
        self._pass[width] = seconds if known is None else _blend(known, seconds)

    def learn_draft(self, drafter: str, seconds_per_token: float) -> None:
        known = self._draft.get(drafter)
        self._draft[drafter] = (
            seconds_per_token if known is None else _blend(known, seconds_per_token)
        )


def _blend(known: float, seen: float) -> float:
    """Moves slowly, and hardly at all for an outlier: these machines are noisy."""
    seen = min(max(seen, known / _OUTLIER), known * _OUTLIER)
    return known + _NEW_WEIGHT * (seen - known)
