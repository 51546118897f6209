"""How often a drafter that is so sure is right: learned from what the target kept."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.control.rejection_odds import RejectionOdds

EDGES = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Between bins of confidence: narrow where most drafted tokens are."""

BINS = len(EDGES) + 1
DEPTHS = 3
"""Depth 1, depth 2, and everything deeper are told apart."""

_CENTRES = tuple((low + high) / 2 for low, high in zip((0.0, *EDGES), (*EDGES, 1.0), strict=True))
_PRIOR_WEIGHT = 6.0
_DEPTH_WEIGHT = 12.0
_DOUBT = 1.6
"""Drafts go where chances look best, so they are worse there than they look."""


def confidence_bin(confidence: float) -> int:
    return bisect_right(EDGES, confidence)


class AcceptanceEstimator:
    """From a drafter's confidence to the chance that its token is kept, learned per bin.

    Bins start as honest confidences that a few tokens outweigh. Means are made to rise with the
    confidence (isotonic regression, pool adjacent violators); a depth's own record counts as far
    as it is long, the record of all depths stands in for the rest. If it adapts: where more or
    fewer tokens were rejected of late than that says, the odds of rejection are scaled.
    """

    def __init__(self, *, adapts: bool = False) -> None:
        """adapts: to the text at hand."""
        self._adapts = adapts
        self._kept = np.zeros((DEPTHS, BINS))
        self._tried = np.zeros((DEPTHS, BINS))
        self._table: NDArray[np.float64] | None = None
        self._odds = RejectionOdds(_DOUBT if adapts else 1.0)

    def estimate(self, confidence: float, depth: int = 1) -> float:
        usual = self._usual()[_depth_class(depth), confidence_bin(confidence)]
        return self._odds.applied(float(usual))

    def learn(self, confidence: float, kept: float, depth: int = 1) -> None:
        """kept: whether, or with what chance, the target kept the token."""
        place = _depth_class(depth), confidence_bin(confidence)
        if self._adapts:  # only then is a table needed for every token
            self._odds.learn(float(self._usual()[place]), kept)
        self._tried[place] += 1.0
        self._kept[place] += kept
        self._table = None

    def begin_text(self) -> None:
        self._odds.begin_text()

    def table(self) -> NDArray[np.float64]:
        """Chances [DEPTHS, BINS], in the text at hand."""
        return self._odds.applied(self._usual())

    def _usual(self) -> NDArray[np.float64]:
        if self._table is None:
            kept = self._kept.sum(axis=0) + _PRIOR_WEIGHT * np.array(_CENTRES)
            tried = self._tried.sum(axis=0) + _PRIOR_WEIGHT
            common = _rising(kept / tried, tried)
            self._table = (self._kept + _DEPTH_WEIGHT * common) / (self._tried + _DEPTH_WEIGHT)
        return self._table

    def most(self) -> float:
        """The best chance that could still be true: of the surest bin, a deviation up."""
        chance = float(self._usual()[:, -1].max())
        tried = float(self._tried[:, -1].sum()) + _PRIOR_WEIGHT
        return min(0.995, chance + math.sqrt(chance * (1.0 - chance) / tried))

    def to_json(self) -> dict[str, Any]:
        return {"kept": _rounded(self._kept), "tried": _rounded(self._tried)}

    @staticmethod
    def from_json(content: Mapping[str, Any], *, adapts: bool = False) -> AcceptanceEstimator:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        chance = AcceptanceEstimator(adapts=adapts)
        chance._kept = _array(content["kept"], (DEPTHS, BINS))
        chance._tried = _array(content["tried"], (DEPTHS, BINS))
        if np.any(chance._kept > chance._tried + 0.01):
            raise ValueError("more tokens kept than tried")
        return chance


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
    """How sure a drafter was when asked: at the first token of a draft, and further down.

    What was seen of late counts, and what was seen in all texts stands in where that is little.
    There every text counts about the same: easy ones, in which drafts are long, would otherwise
    make the next text look easy.
    """

    def __init__(self) -> None:
        self._recent = np.zeros((2, BINS))
        self._text = np.zeros((2, BINS))
        self._texts = np.array([_TYPICAL, _TYPICAL]) * _TYPICAL_WEIGHT

    def add(self, confidence: float, depth: int) -> None:
        row = 0 if depth == 1 else 1
        place = row, confidence_bin(confidence)
        self._recent[row] *= _MEMORY
        self._recent[place] += 1.0
        self._text[place] += 1.0

    def begin_text(self) -> None:
        self._texts = self._with_text()
        self._text = np.zeros((2, BINS))

    def _with_text(self) -> NDArray[np.float64]:
        """The record of all texts, with this one in it."""
        looks = self._text.sum(axis=1, keepdims=True)
        record = self._texts + self._text * np.minimum(1.0, _LOOKS_OF_A_TEXT / np.maximum(looks, 1))
        length = record.sum(axis=1, keepdims=True)
        return np.asarray(record * np.minimum(1.0, _LONGEST_RECORD / length))

    def fade(self, tokens: float) -> None:
        """So many tokens passed unseen: what was seen before them says less."""
        self._recent *= _MEMORY**tokens

    def shares(self) -> NDArray[np.float64]:
        """Share of looks per bin [first or later, BINS]."""
        common = self._texts / self._texts.sum(axis=1, keepdims=True)
        mixed = self._recent + _COMMON_WEIGHT * common
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))

    def to_json(self) -> dict[str, Any]:
        return {"texts": _rounded(self._with_text())}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> ConfidenceHistory:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        history = ConfidenceHistory()
        history._texts = _array(content["texts"], (2, BINS))
        if np.any(history._texts.sum(axis=1) < _TYPICAL_WEIGHT - 0.1):
            raise ValueError("a record shorter than what it starts with")
        return history


_TYPICAL = (0.01, 0.03, 0.05, 0.06, 0.06, 0.07, 0.10, 0.09, 0.10, 0.43)
"""Of a small model of the target's family: assumed until the drafter was seen at work."""

_TYPICAL_WEIGHT = 8.0
_COMMON_WEIGHT = 6.0
_LOOKS_OF_A_TEXT = 12.0
_LONGEST_RECORD = 1000.0
_MEMORY = 0.97


def _rounded(values: NDArray[np.float64]) -> list[list[float]]:
    return [[round(value, 3) for value in row] for row in values.tolist()]


def _array(content: Sequence[Sequence[float]], shape: tuple[int, int]) -> NDArray[np.float64]:
    values = np.array(content, np.float64)
    if values.shape != shape or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise ValueError(f"not a table of {shape[0]} x {shape[1]} counts")
    return values
