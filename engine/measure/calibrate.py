"""Measures what passes cost on this machine: T(n) of the loaded target, and its prefill."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.llama.context import Context

_QUICK_WIDTHS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 17)
_ALL_WIDTHS = (*range(1, 17), 24, 32)
_DEEP_WIDTHS = (1, 4, 8)
_SHALLOW = 32
_AGREEMENT = 0.04  # median deviation from the median, as a share of it
_PREFILL = {False: 128, True: 992}  # tokens, by thoroughness
_SECONDS = {False: 5.0, True: 20.0}
_PATIENCE = 4  # times the seconds for a machine that is busy otherwise: then no second depth


@dataclass(frozen=True, slots=True)
class _Repeats:
    """Of every pass: at least and at most."""

    least: int
    most: int


_REPEATS = {False: _Repeats(2, 5), True: _Repeats(3, 9)}


@dataclass(frozen=True, slots=True)
class Calibration:
    """passes: seconds of T(n) by width n, after few tokens. per_cached: seconds that every cached
    token adds to it. prefill: prompt tokens per second.

    spread: what passes of one width differed by, as a share."""

    passes: Mapping[int, float]
    per_cached: Mapping[int, float]
    prefill: float
    spread: float = 0.0

    def scaled(self, factor: float) -> Calibration:
        """The same on a machine that is slower by this factor."""
        return Calibration(
            {width: factor * seconds for width, seconds in self.passes.items()},
            {width: factor * seconds for width, seconds in self.per_cached.items()},
            self.prefill / factor,
            self.spread,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "passes": {str(width): seconds for width, seconds in self.passes.items()},
            "growth": {str(width): seconds for width, seconds in self.per_cached.items()},
            "prefill": self.prefill,
            "spread": self.spread,
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Calibration:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        passes = {int(width): float(value) for width, value in content["passes"].items()}
        per_cached = {int(width): float(value) for width, value in content["growth"].items()}
        prefill = float(content["prefill"])
        spread = float(content.get("spread", 0.0))
        if 1 not in passes or min(passes.values()) <= 0.0 or prefill <= 0.0 or not spread >= 0.0:
            raise ValueError("not a calibration")
        return Calibration(passes, per_cached, prefill, spread)


def calibrate(
    context: Context,
    *,
    thorough: bool,
    report: Callable[[float], None],
    clock: Callable[[], float] = time.perf_counter,
) -> Calibration:
    """A few seconds, or half a minute if thorough. Clears the context.

    Widths take turns, so that a machine that others use as well slows all of them alike; passes
    are repeated while they disagree and time is left.
    """
    token = max(context.model.vocab.bos, 1)
    widths = _fitting(context, _ALL_WIDTHS if thorough else _QUICK_WIDTHS)
    budget = _SECONDS[thorough]
    begun = clock()
    context.clear()
    _feed(context, token, min(_SHALLOW, context.length_limit - max(widths)))
    report(0.1)
    taken = _timed_passes(context, token, widths, _REPEATS[thorough], budget, clock)
    passes = _typical_passes(taken)
    report(0.6)
    shallow = len(context.tokens)
    deep = min(shallow + _PREFILL[thorough], context.length_limit - max(widths))
    started = clock()
    _feed(context, token, deep)
    # In a context too short for a prompt, the widest pass stands in for one.
    prefill = (deep - shallow) / (clock() - started) if deep > shallow else 0.0
    report(0.8)
    per_cached = {}
    if deep > shallow and clock() - begun < _PATIENCE * budget:
        few = [width for width in _DEEP_WIDTHS if width in widths]
        later = _typical_passes(
            _timed_passes(context, token, few, _Repeats(2, 3), budget / 2, clock)
        )
        per_cached = {n: max(0.0, later[n] - passes[n]) / (deep - shallow) for n in few}
    context.clear()
    prefill = prefill or max(widths) / passes[max(widths)]
    spread = statistics.median(map(_disagreement, taken.values()))
    return Calibration(passes, per_cached, prefill, round(spread, 4))


def measure_passes(
    context: Context, widths: Sequence[int] = _QUICK_WIDTHS, repeats: int = 3
) -> dict[int, float]:
    """Typical seconds of a pass by width, after few tokens. Clears the context."""
    token = max(context.model.vocab.bos, 1)
    widths = _fitting(context, widths)
    context.clear()
    _feed(context, token, min(_SHALLOW, context.length_limit - max(widths)))
    bounds = _Repeats(repeats, repeats)
    taken = _timed_passes(context, token, widths, bounds, float("inf"), time.perf_counter)
    passes = _typical_passes(taken)
    context.clear()
    return passes


def plain_seconds(context: Context) -> float:
    """T(1) as it is now: how fast the machine is at present. Clears the context."""
    return measure_passes(context, (1,), 4)[1]


def _fitting(context: Context, widths: Sequence[int]) -> tuple[int, ...]:
    most = min(context.widest_undone, context.length_limit - _SHALLOW)
    return tuple(width for width in widths if width <= most) or (1,)


def _feed(context: Context, token: int, length: int) -> None:
    for start in range(len(context.tokens), length, _CHUNK):
        context.feed([token] * min(_CHUNK, length - start))


_CHUNK = 256


def _timed_passes(
    context: Context,
    token: int,
    widths: Sequence[int],
    repeats: _Repeats,
    budget: float,
    clock: Callable[[], float],
) -> dict[int, list[float]]:
    """Seconds of every pass by width. budget: seconds after which a pass of each is enough."""
    length = len(context.tokens)
    taken: dict[int, list[float]] = {width: [] for width in widths}
    begun = clock()
    context.extend([token])  # the first pass also sets things up
    context.truncate(length)
    for repeat in range(repeats.most):
        late = clock() - begun > budget
        enough = repeat >= repeats.least and all(map(_agree, taken.values()))
        if repeat and (late or enough):
            break
        for width in widths:
            started = clock()
            context.extend([token] * width)
            taken[width].append(clock() - started)
            context.truncate(length)
    return taken


def _typical_passes(taken: Mapping[int, Sequence[float]]) -> dict[int, float]:
    return _never_falling({width: _typical(times) for width, times in taken.items()})


def _never_falling(passes: dict[int, float]) -> dict[int, float]:
    """No pass takes longer than a wider one did: where it seemed to, something disturbed it."""
    least, rising = float("inf"), {}
    for width in sorted(passes, reverse=True):
        least = min(least, passes[width])
        rising[width] = least
    return {width: rising[width] for width in sorted(passes)}


def _typical(times: Sequence[float]) -> float:
    """The median of the faster half: what else the machine does only ever slows a pass down."""
    ordered = sorted(times)
    return statistics.median(ordered[: (len(ordered) + 1) // 2])


def _agree(times: Sequence[float]) -> bool:
    return _disagreement(times) <= _AGREEMENT


def _disagreement(times: Sequence[float]) -> float:
    """Median deviation from the median, as a share of it."""
    middle = statistics.median(times)
    return statistics.median(abs(one - middle) for one in times) / middle if middle else 0.0
