"""From a drafter's confidence to the probability that its token is kept, learned from rounds."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.control.rejection_odds import RejectionOdds
from engine.control.tuning import TUNING, HistoryTuning, Tuning

EDGES = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Between bins of confidence: narrow where most drafted tokens are. Stored tables have them."""

BINS = len(EDGES) + 1
DEPTHS = 3
"""Depth 1, depth 2, and everything deeper have a table each."""

_CENTRES = tuple((low + high) / 2 for low, high in zip((0.0, *EDGES), (*EDGES, 1.0), strict=True))


def confidence_bin(confidence: float) -> int:
    return bisect_right(EDGES, confidence)


class AcceptanceEstimator:
    """Acceptance probabilities by bin of confidence and by depth.

    The prior is that confidences are calibrated; a few tokens outweigh it. Probabilities are made
    to rise with the confidence (isotonic regression, pool adjacent violators). The record of one
    depth counts by its length, and the record of all depths fills in the rest. If it adapts, the
    odds of rejection are scaled by how many tokens the present text rejects.
    """

    def __init__(self, *, adapts: bool = False, tuning: Tuning = TUNING) -> None:
        """adapts: to the present text."""
        self._tuning = tuning.estimator
        self._adapts = adapts
        self._kept = np.zeros((DEPTHS, BINS))
        self._tried = np.zeros((DEPTHS, BINS))
        self._table: NDArray[np.float64] | None = None
        self._odds = RejectionOdds(tuning.estimator.doubt if adapts else 1.0, tuning.odds)

    def estimate(self, confidence: float, depth: int = 1) -> float:
        usual = self._usual()[_depth_class(depth), confidence_bin(confidence)]
        return self._odds.applied(float(usual))

    def learn(self, confidence: float, kept: float, depth: int = 1) -> None:
        """kept: whether the target kept the token, or the probability that it did."""
        cell = _depth_class(depth), confidence_bin(confidence)
        if self._adapts:  # only then is a table needed for every token
            self._odds.learn(float(self._usual()[cell]), kept)
        self._tried[cell] += 1.0
        self._kept[cell] += kept
        self._table = None

    def begin_text(self) -> None:
        self._odds.begin_text()

    def table(self) -> NDArray[np.float64]:
        """Probabilities [DEPTHS, BINS] in the present text."""
        return self._odds.applied(self._usual())

    def _usual(self) -> NDArray[np.float64]:
        if self._table is None:
            prior, weight = self._tuning.prior_weight, self._tuning.depth_weight
            kept = self._kept.sum(axis=0) + prior * np.array(_CENTRES)
            tried = self._tried.sum(axis=0) + prior
            common = _rising(kept / tried, tried)
            self._table = (self._kept + weight * common) / (self._tried + weight)
        return self._table

    def most(self) -> float:
        """An upper estimate for the most confident bin: one standard deviation above its mean."""
        mean = float(self._usual()[:, -1].max())
        tried = float(self._tried[:, -1].sum()) + self._tuning.prior_weight
        return min(self._tuning.most, mean + math.sqrt(mean * (1.0 - mean) / tried))

    def to_json(self) -> dict[str, Any]:
        return {"kept": _rounded(self._kept), "tried": _rounded(self._tried)}

    @staticmethod
    def from_json(
        content: Mapping[str, Any], *, adapts: bool = False, tuning: Tuning = TUNING
    ) -> AcceptanceEstimator:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        estimator = AcceptanceEstimator(adapts=adapts, tuning=tuning)
        estimator._kept = _array(content["kept"], (DEPTHS, BINS))
        estimator._tried = _array(content["tried"], (DEPTHS, BINS))
        if np.any(estimator._kept > estimator._tried + 0.01):
            raise ValueError("more tokens kept than tried")
        return estimator


def _depth_class(depth: int) -> int:
    return min(depth, DEPTHS) - 1


def _rising(means: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The non-decreasing sequence nearest to the means, by weighted squares."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, bins
    for mean, weight in zip(means.tolist(), weights.tolist(), strict=True):
        block = (mean, weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            above = blocks.pop()
            total = above[1] + block[1]
            mixed = (above[0] * above[1] + block[0] * block[1]) / total
            block = (mixed, total, above[2] + block[2])
        blocks.append(block)
    return np.repeat([mean for mean, _, _ in blocks], [bins for _, _, bins in blocks])


class ConfidenceHistory:
    """How often each bin of confidence occurs: at the first token of a draft, and at later ones.

    Recent draft steps count most; where they are few, the record of all texts fills in. In that
    record every text counts about the same. Easy texts have longer drafts and so more steps:
    otherwise they would dominate the expectation for the next text.
    """

    def __init__(self, tuning: HistoryTuning = TUNING.history) -> None:
        self._tuning = tuning
        self._recent = np.zeros((2, BINS))
        self._text = np.zeros((2, BINS))
        self._texts = np.array([tuning.typical, tuning.typical]) * tuning.typical_weight

    def add(self, confidence: float, depth: int) -> None:
        row = 0 if depth == 1 else 1
        cell = row, confidence_bin(confidence)
        self._recent[row] *= self._tuning.memory
        self._recent[cell] += 1.0
        self._text[cell] += 1.0

    def begin_text(self) -> None:
        """Another text: recent steps count less, as after a gap."""
        self._texts = self._with_text()
        self._text = np.zeros((2, BINS))
        self.fade(self._tuning.gap_between_texts)

    def _with_text(self) -> NDArray[np.float64]:
        """The record of all texts, including this one."""
        steps = self._text.sum(axis=1, keepdims=True)
        weight = np.minimum(1.0, self._tuning.steps_of_a_text / np.maximum(steps, 1))
        record = self._texts + self._text * weight
        length = record.sum(axis=1, keepdims=True)
        return np.asarray(record * np.minimum(1.0, self._tuning.longest_record / length))

    def fade(self, tokens: float) -> None:
        """So many tokens were written without a draft step: earlier steps count less."""
        self._recent *= self._tuning.memory**tokens

    def fractions(self) -> NDArray[np.float64]:
        """Fraction of draft steps per bin [first or later, BINS]."""
        common = self._texts / self._texts.sum(axis=1, keepdims=True)
        mixed = self._recent + self._tuning.common_weight * common
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))

    def to_json(self) -> dict[str, Any]:
        return {"texts": _rounded(self._with_text())}

    @staticmethod
    def from_json(
        content: Mapping[str, Any], tuning: HistoryTuning = TUNING.history
    ) -> ConfidenceHistory:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        history = ConfidenceHistory(tuning)
        history._texts = _array(content["texts"], (2, BINS))
        if np.any(history._texts.sum(axis=1) < tuning.typical_weight - 0.1):
            raise ValueError("a record shorter than what it starts with")
        return history


def _rounded(values: NDArray[np.float64]) -> list[list[float]]:
    return [[round(value, 3) for value in row] for row in values.tolist()]


def _array(content: Sequence[Sequence[float]], shape: tuple[int, int]) -> NDArray[np.float64]:
    values = np.array(content, np.float64)
    if values.shape != shape or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise ValueError(f"not a table of {shape[0]} x {shape[1]} counts")
    return values
