"""The few likeliest tokens of a row of logits, found without sorting the row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.maths.sampling import confidence

_FOLDED_ROWS = 128


@dataclass(frozen=True, slots=True)
class Ranking:
    """What the target found likeliest after `token`, before penalties and truncation.

    ids: the likeliest first. probabilities: among one another, summing to 1.
    """

    token: int
    ids: NDArray[np.int32]
    probabilities: NDArray[np.float32]


def rank(token: int, row: NDArray[np.float32], count: int) -> Ranking:
    """The `count` largest logits of the row [vocabulary] that follows `token`; ties: lowest id."""
    ids = _largest(row, min(count, len(row)))
    values = row[ids]
    weights = np.exp(values - values[0])
    return Ranking(token, ids.astype(np.int32), (weights / weights.sum()).astype(np.float32))


def _largest(row: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Ids of the largest values. The count-th largest column maximum bounds them from below."""
    columns = len(row) // _FOLDED_ROWS
    if columns < count:
        return np.argsort(-row, kind="stable")[:count]
    maxima = row[: columns * _FOLDED_ROWS].reshape(_FOLDED_ROWS, columns).max(axis=0)
    threshold = np.partition(maxima, columns - count)[columns - count]
    candidates = np.flatnonzero(row >= threshold)
    order = np.argsort(-row[candidates], kind="stable")[:count]
    chosen: NDArray[np.int64] = candidates[order]
    return chosen


def likeliest(row: NDArray[np.float32], count: int) -> list[tuple[int, float]]:
    """The `count` largest logits of a row as (token, softmax probability), largest first."""
    count = min(count, len(row))
    top = np.argpartition(row, len(row) - count)[len(row) - count :]
    top = top[np.argsort(-row[top], kind="stable")]
    best = confidence(row)
    weights = np.exp(row[top].astype(np.float64) - float(row[top[0]]))
    return [(int(token), best * float(w)) for token, w in zip(top, weights, strict=True) if w > 0.0]
