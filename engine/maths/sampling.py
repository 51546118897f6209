"""From a row of logits to the truncated distribution p. Pure numpy, no model, no randomness.

Runs once per verified row over vocabularies of up to 262,144 tokens, so nothing here sorts or
partitions a whole row: candidates are found by thresholds, and only they are ordered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import NativeError
from engine.data.request import SamplingParams
from engine.maths.distribution import Distribution

_FOLDED_ROWS = 64
_SMALL_BAND = 2048
_FIRST_DEPTH = 4.0
_DEPTH_STEP = 3.0
_FLOAT64_SUPPORT = 4096
_LOWEST_TEMPERATURE = 1e-30  # below it float32 has no reciprocal; the law is greedy long before
_FLOAT32_DEPTH = 80.0  # exp(-87) is the smallest normal float32


class Sampler:
    """The request's penalties, truncation and temperature. Not for use by two threads at once."""

    def __init__(self, params: SamplingParams) -> None:
        self.params = params
        self._penalises = params.penalty_last_n > 0 and (
            params.repeat_penalty != 1.0
            or params.frequency_penalty != 0.0
            or params.presence_penalty != 0.0
        )
        self._exponentials = np.empty(0, np.float32)
        self._ids = np.arange(0)

    def recent(self, context: Sequence[int]) -> Sequence[int]:
        """The end of a context that the penalties read; empty when there are none."""
        window = self.params.penalty_last_n if self._penalises else 0
        return context[max(0, len(context) - window) :]

    def distribution(self, logits: NDArray[np.float32], history: Sequence[int]) -> Distribution:
        """p for the token after `history`.

        logits: [vocabulary] float32, left untouched; -inf means impossible. history: every token
        before this row's prediction, drafted ones included; its end is read by the penalties.
        Raises NativeError when the row holds NaN or +inf, or nothing but -inf.
        """
        if self._penalises:
            logits = self._penalised(logits, history)
        if self.params.temperature == 0.0:
            return Distribution.point_mass(_greedy(logits))
        ids, best = self._top_k(logits)
        if self.params.top_p < 1.0:
            ids = self._top_p(logits, ids, best)
        return self._tempered(logits, ids, best)

    def _penalised(
        self, logits: NDArray[np.float32], history: Sequence[int]
    ) -> NDArray[np.float32]:
        """llama.cpp's penalties: repeat scales towards less likely, then counts are subtracted."""
        window = history[-self.params.penalty_last_n :]
        if not window:
            return logits
        counted = Counter(window)
        ids = np.fromiter(counted.keys(), np.int64, len(counted))
        counts = np.fromiter(counted.values(), np.float32, len(counted))
        values = logits[ids]
        repeat = np.float32(self.params.repeat_penalty)
        values = np.where(values > 0.0, values / repeat, values * repeat)
        values -= counts * np.float32(self.params.frequency_penalty)
        values -= np.float32(self.params.presence_penalty)
        penalised = logits.copy()
        penalised[ids] = values
        return penalised

    def _top_k(self, logits: NDArray[np.float32]) -> tuple[NDArray[np.int64] | None, float]:
        """Ids of the top_k largest logits (ties: lowest id), None for all; the largest logit.

        Folding the row into columns keeps one maximum a column. The k-th largest of those is at
        most the k-th largest logit, so few tokens beyond k pass it.
        """
        top_k = self.params.top_k
        size = len(logits)
        columns = size // _FOLDED_ROWS
        if top_k == 0 or top_k >= size:
            return None, _checked(float(logits.max()))
        if 2 * top_k > columns:
            return _largest(logits, np.arange(size), top_k), _checked(float(logits.max()))
        whole = columns * _FOLDED_ROWS
        grid, tail = logits[:whole].reshape(_FOLDED_ROWS, columns), logits[whole:]
        maxima = grid.max(axis=0)
        best = _checked(float(np.maximum(maxima.max(), tail.max(initial=-np.inf))))
        threshold = np.partition(maxima, columns - top_k)[columns - top_k]
        passing = np.flatnonzero(maxima >= threshold)
        rows, indices = np.nonzero(grid[:, passing] >= threshold)
        in_tail = np.flatnonzero(tail >= threshold)
        candidates = np.concatenate((rows * columns + passing[indices], in_tail + whole))
        return _largest(logits, candidates, top_k), best

    def _top_p(
        self, logits: NDArray[np.float32], ids: NDArray[np.int64] | None, best: float
    ) -> NDArray[np.int64]:
        """Ids of the smallest set of most likely tokens that reaches top_p of the mass."""
        if ids is not None:
            weights = np.exp(logits[ids].astype(np.float64) - best)
            return ids[_nucleus(weights, self.params.top_p * float(weights.sum()))]
        if len(self._exponentials) != len(logits):
            self._exponentials = np.empty(len(logits), np.float32)
        row = self._exponentials
        np.subtract(logits, np.float32(best), out=row)
        np.exp(row, out=row)
        return _large_nucleus(row, self.params.top_p * float(row.sum()))

    def _tempered(
        self, logits: NDArray[np.float32], ids: NDArray[np.int64] | None, best: float
    ) -> Distribution:
        """min-p (relative to the likeliest token), then temperature."""
        if self.params.min_p > 0.0:
            lowest = np.float32(best + math.log(self.params.min_p))
            ids = np.flatnonzero(logits >= lowest) if ids is None else ids[logits[ids] >= lowest]
        scores = _scores(logits, ids, best)
        with np.errstate(over="ignore"):  # a tiny temperature sends the rest to -inf
            scores /= max(self.params.temperature, _LOWEST_TEMPERATURE)
        mass = np.exp(scores, out=scores).astype(np.float64, copy=False)
        kept = self._all_ids(len(logits)) if ids is None else ids
        if mass.min() == 0.0:
            possible = mass > 0.0
            kept, mass = kept[possible], mass[possible]
        mass /= mass.sum()
        return Distribution(kept, mass)

    def _all_ids(self, size: int) -> NDArray[np.int64]:
        if len(self._ids) != size:
            self._ids = np.arange(size)
            self._ids.flags.writeable = False  # every untruncated distribution shares it
        return self._ids


def _scores(
    logits: NDArray[np.float32], ids: NDArray[np.int64] | None, best: float
) -> NDArray[np.floating]:
    """Logits of the support less the best one; float64 unless that would cost milliseconds."""
    chosen = logits if ids is None else logits[ids]
    if len(chosen) <= _FLOAT64_SUPPORT:
        return chosen.astype(np.float64) - best
    scores: NDArray[np.float32] = chosen - np.float32(best)
    return scores


def confidence(logits: NDArray[np.float32]) -> float:
    """The largest softmax probability of the raw row, [vocabulary] float32."""
    best = _checked(float(logits.max()))
    weights = logits - np.float32(best)
    return 1.0 / float(np.exp(weights, out=weights).sum())


def _greedy(logits: NDArray[np.float32]) -> int:
    token = int(np.argmax(logits))  # the lowest id among ties, and the first NaN if any
    _checked(float(logits[token]))
    return token


def _checked(best: float) -> float:
    if not math.isfinite(best):
        what = "not a number" if math.isnan(best) else "not finite"
        raise NativeError(
            f"the model returned logits that are {what}; the file may be damaged: fetch it again,"
            " or try another quantisation"
        )
    return best


def _largest(
    logits: NDArray[np.float32], candidates: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """The `count` candidates with the largest logits, ascending ids; ties: lowest id."""
    surplus = len(candidates) - count
    if surplus <= 0:
        return candidates
    values = logits[candidates]
    smallest = np.partition(values, surplus)[surplus]
    kept = values > smallest
    tied = np.flatnonzero(values == smallest)
    kept[tied[: count - int(np.count_nonzero(kept))]] = True
    chosen: NDArray[np.int64] = candidates[kept]
    return chosen


def _nucleus(weights: NDArray[np.floating], needed: float) -> NDArray[np.int64]:
    """Indices, ascending, of the fewest largest weights whose sum reaches `needed`; at least 1."""
    order: NDArray[np.int64] = np.argsort(-weights, kind="stable")
    cumulative = np.cumsum(weights[order], dtype=np.float64)
    count = int(np.searchsorted(cumulative, needed)) + 1
    return np.sort(order[:count])


def _large_nucleus(weights: NDArray[np.float32], needed: float) -> NDArray[np.int64]:
    """`_nucleus` for a whole row with largest weight 1, ordering only the weights at the cut.

    Thresholds fall until their tokens reach the mass; then the band between the last two is
    halved until it is small. Tokens above the band are certainly in.
    """
    sure: list[NDArray[np.int64]] = []
    sure_mass, high, depth = 0.0, math.inf, _FIRST_DEPTH
    while True:
        low = math.exp(-depth) if depth < _FLOAT32_DEPTH else 0.0
        found = np.flatnonzero(weights >= low if low > 0.0 else weights > 0.0)
        mass = float(weights[found].sum(dtype=np.float64))
        if mass >= needed or low == 0.0:
            break
        sure, sure_mass, high, depth = [found], mass, low, depth + _DEPTH_STEP
    band = found[weights[found] < high]
    while len(band) > _SMALL_BAND:
        values = weights[band]
        upper = values >= math.sqrt(float(values.min()) * float(values.max()))
        if upper.all():  # ties
            break
        mass = sure_mass + float(values[upper].sum(dtype=np.float64))
        if mass >= needed:
            band = band[upper]
        else:
            sure.append(band[upper])
            sure_mass, band = mass, band[~upper]
    sure.append(band[_nucleus(weights[band], needed - sure_mass)])
    return np.sort(np.concatenate(sure))
