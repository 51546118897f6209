"""How much faster than plain decoding: the upper bound, what was measured, and its interval.

Everything that shows or advises a speed-up takes its bound and its interval from here. No pass of
the target is faster than one over a single token, and plain decoding makes one such pass a token.
So the speed-up is at most the tokens emitted per pass, and less where wider passes take longer. A
measured speed-up beyond that is noise of the machine.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.control.tuning import TUNING

PAYS = TUNING.speedup.pays
HURTS = 0.97
"""Times as fast as plain decoding: above it, what is lost is not worth a word."""
MOST_PROMPTS = TUNING.speedup.most_prompts

_WIDEST = math.log(1000.0)  # either way: an interval that wide knows nothing
_NORMAL = statistics.NormalDist().inv_cdf(0.975)
_POWER = statistics.NormalDist().inv_cdf(0.8)
_FEW_DEGREES = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
}  # where the series below is not exact enough


def most_speedup(
    emitted: int, rounds: int, widths: Iterable[int] = (), ratios: Mapping[int, float] | None = None
) -> float | None:
    """The bound: tokens a round, over what the rounds' passes take at least, in passes of one row.

    widths: rows of every pass. ratios: of `pass_ratios`; without them passes of all widths count
    as if they took no longer than one of a single row. None where no round is known.
    """
    if rounds < 1 or emitted < 1:
        return None
    passes = [_ratio(ratios, width) for width in widths] if ratios else []
    return emitted / (sum(passes) if len(passes) == rounds else rounds)


def pass_ratios(passes: Iterable[tuple[int, float]]) -> dict[int, float]:
    """By width n the least that T(n) / T(1) can be, from rows and seconds of passes.

    The first quartile of the wide passes over the third quartile of those of one row, never below 1
    and never falling: noise makes the bound looser, at most as loose as tokens per round. Empty
    without a pass of one row.
    """
    seen: dict[int, list[float]] = {}
    for width, seconds in passes:
        seen.setdefault(width, []).append(seconds)
    plain = _quartile(seen.get(1, ()), 3)
    if plain <= 0.0:
        return {}
    least, ratios = math.inf, {1: 1.0}
    for width in sorted(seen, reverse=True):
        least = min(least, _quartile(seen[width], 1) / plain)
        ratios[width] = max(1.0, least) if width > 1 else 1.0
    return ratios


def _ratio(ratios: Mapping[int, float], width: int) -> float:
    """Of a width that was not seen: that of the next narrower one."""
    return ratios[max(known for known in ratios if known <= max(1, width))]


def _quartile(values: Sequence[float], number: int) -> float:
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[round(number * (len(ordered) - 1) / 4)]


@dataclass(frozen=True, slots=True)
class Repeats:
    """How much plain decoding differs from itself. deviation: of the logarithm of one reply's
    seconds; pairs: prompts that were answered twice."""

    deviation: float = 0.0
    pairs: int = 0

    @staticmethod
    def of(repeated: Iterable[Sequence[float]]) -> Repeats:
        """Of seconds a token, two of each prompt; prompts asked once are passed over."""
        gaps = [math.log(twice[1] / twice[0]) for twice in repeated if len(twice) == 2]
        if not gaps:
            return Repeats()
        return Repeats(math.sqrt(sum(gap**2 for gap in gaps) / (2 * len(gaps))), len(gaps))

    @property
    def difference(self) -> float | None:
        """By what fraction two replies to one prompt differ; None if nothing was asked twice."""
        return math.expm1(math.sqrt(2.0) * self.deviation) if self.pairs else None


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """Of several prompts: the geometric mean and its 95 % interval, all within the bound.

    most: the bound; None where there is none. clock: the mean without it.
    deviation: of the logarithm of one prompt's ratio.
    needed: prompts with which an effect of this size is significant in four cases of five, None
    where even MOST_PROMPTS are too few.
    """

    mean: float
    low: float
    high: float
    most: float | None
    prompts: int
    deviation: float
    needed: int | None
    clock: float

    @property
    def settled(self) -> bool:
        """Whether this is significantly faster or slower than plain. One prompt settles nothing,
        unless the bound excludes a gain."""
        if self.most is not None and self.most < PAYS:
            return True
        return self.prompts > 1 and not self.low <= 1.0 <= self.high

    @property
    def pays(self) -> bool:
        return self.mean >= PAYS


def speed_up(
    measured: Sequence[float],
    bounds: Sequence[float | None] = (),
    repeats: Repeats | None = None,
) -> SpeedUp:
    """measured: ratios, prompt by prompt, one at least. bounds: of each, `most_speedup`.

    What a ratio has beyond its bound is an error of measurement, so it widens the interval. The
    deviation of a prompt's ratio is at least that of plain decoding's two replies.
    """
    count = len(measured)
    raw = [math.log(ratio) for ratio in measured]
    limits = [math.inf if one is None else math.log(one) for one in bounds] or [math.inf] * count
    held = [min(ratio, limit) for ratio, limit in zip(raw, limits, strict=True)]
    centre = statistics.fmean(held)
    excess = statistics.fmean(raw) - centre
    deviation, degrees = _deviation(raw, repeats or Repeats())
    half = min(math.hypot(student(degrees) * deviation / math.sqrt(count), excess), _WIDEST)
    most = statistics.fmean(limits)
    needed = _needed(math.hypot(deviation, excess), centre, count)
    return SpeedUp(
        mean=math.exp(centre),
        low=math.exp(centre - half),
        high=math.exp(min(centre + half, max(most, centre))),
        most=math.exp(most) if math.isfinite(most) else None,
        prompts=count,
        deviation=deviation,
        needed=needed,
        clock=math.exp(centre + excess),
    )


def _deviation(logarithms: Sequence[float], repeats: Repeats) -> tuple[float, int]:
    """Of one prompt's ratio, and its degrees of freedom."""
    between = statistics.stdev(logarithms) if len(logarithms) > 1 else 0.0
    itself = math.sqrt(1.5) * repeats.deviation  # of one reply over the mean of two
    if itself > between:
        return itself, repeats.pairs
    return between, max(1, len(logarithms) - 1)


def _needed(deviation: float, centre: float, count: int) -> int | None:
    """The fewest prompts with which the interval excludes 1 in four cases of five."""
    effect = max(abs(centre), math.log(PAYS))
    for prompts in range(max(2, count + 1), MOST_PROMPTS + 1):
        if (student(prompts - 1) + _POWER) * deviation / math.sqrt(prompts) <= effect:
            return prompts
    return None


def student(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, by the expansion around the normal quantile."""
    known = _FEW_DEGREES.get(degrees)
    if known is not None:
        return known
    z = _NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
