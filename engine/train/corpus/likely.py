"""The most likely tokens of many rows of logits at once, and draws from them; pure numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BLOCK = 256


def largest(
    logits: NDArray[np.float32], count: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The `count` largest of each row: ids [rows, count] and logits [rows, count], descending.

    Two steps, because a partition of whole rows costs more than the pass that made them: the blocks
    with the largest maxima hold all of the largest values.
    """
    rows, vocabulary = logits.shape
    if vocabulary < _BLOCK * (count + 1):
        return _sorted(logits, np.argpartition(logits, -count, axis=1)[:, -count:])
    blocks = vocabulary // _BLOCK
    body = logits[:, : blocks * _BLOCK].reshape(rows, blocks, _BLOCK)
    maxima = body.max(axis=2)
    chosen = np.argpartition(maxima, -count, axis=1)[:, -count:]
    ids = (chosen[:, :, None] * _BLOCK + np.arange(_BLOCK)).reshape(rows, -1)
    if vocabulary > blocks * _BLOCK:
        tail = np.arange(blocks * _BLOCK, vocabulary)
        ids = np.concatenate([ids, np.broadcast_to(tail, (rows, len(tail)))], axis=1)
    values = np.take_along_axis(logits, ids, axis=1)
    best = np.argpartition(values, -count, axis=1)[:, -count:]
    return _sorted(logits, np.take_along_axis(ids, best, axis=1))


def _sorted(
    logits: NDArray[np.float32], ids: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    values = np.take_along_axis(logits, ids, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    ordered = np.take_along_axis(ids, order, axis=1).astype(np.int32)
    return ordered, np.take_along_axis(values, order, axis=1)


def log_sum_exp(logits: NDArray[np.float32], maxima: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of each row [rows]; maxima [rows]: the row's largest value."""
    shifted = logits - maxima[:, None]
    np.exp(shifted, out=shifted)
    total: NDArray[np.float32] = np.log(shifted.sum(axis=1)) + maxima
    return total


def draw_nucleus(
    values: NDArray[np.float32],
    temperature: NDArray[np.float64],
    top_p: float,
    uniform: NDArray[np.float64],
) -> NDArray[np.int64]:
    """A column per row of `values` [rows, k], descending logits of the likeliest tokens.

    The nucleus (Holtzman et al. 2020, arXiv 1904.09751) of those k tokens, so at most k wide.
    temperature: [rows], above 0. uniform: [rows] in [0, 1).
    """
    weights = np.exp((values - values[:, :1]).astype(np.float64) / temperature[:, None])
    weights /= weights.sum(axis=1, keepdims=True)
    before = np.cumsum(weights, axis=1) - weights
    weights[before >= top_p] = 0.0
    cumulative = np.cumsum(weights, axis=1)
    points = uniform * cumulative[:, -1]
    drawn: NDArray[np.int64] = (cumulative <= points[:, None]).sum(axis=1)
    return drawn
