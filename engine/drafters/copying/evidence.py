"""What a lookup knows about the next token, and how often such knowledge has been right.

SuffixDecoding (Oliaro et al. 2024, arXiv 2411.04975) cuts drafts where the fraction of earlier
occurrences that go on so, multiplied along the draft, gets too small. Fractions alone say little:
one occurrence always goes on in one way. So they are only one part of the evidence, and the
probability that goes with each kind of evidence is learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.control.rejection_odds import RejectionOdds
from engine.data.rounds import CopySource


@dataclass(frozen=True, slots=True)
class Evidence:
    """`count` of the `total` earlier occurrences of the last `length` tokens went on like this."""

    length: int
    count: int
    total: int


@dataclass(frozen=True, slots=True)
class Continuation:
    """at: where the token stands, in what the cursor reads; of several places, the last one known.

    Two that say the same of what follows are equal wherever they read it.
    """

    token: int
    evidence: Evidence
    at: int = field(compare=False)


class CopyCursor(Protocol):
    """A position in earlier text where the last tokens occurred, moving on with the draft."""

    def continuations(self) -> Sequence[Continuation]:
        """What followed, the most frequent first, then the most recent; empty if nothing did."""
        ...

    def advance(self, token: int) -> None:
        """The draft goes on with this token; with another one than followed, nothing is known."""
        ...

    def source(self, one: Continuation) -> CopySource: ...


_LENGTHS = (3, 4, 6, 9, 17)
_PRIOR_WEIGHT = 4.0


class CopyConfidence:
    """Probability that the next copied token is kept, learned per kind of evidence, and how much
    copying the text at hand allows: one that quotes its prompt is nothing like one that does not.
    """

    def __init__(self) -> None:
        # Priors: a match of n tokens goes on with about n / (n + 2), more if it always did.
        self._kept = [
            [_PRIOR_WEIGHT * prior for prior in _priors(start / (start + 2.0))]
            for start in _LENGTHS
        ]
        self._tried = [[_PRIOR_WEIGHT] * len(cells) for cells in self._kept]
        self._odds = RejectionOdds()

    def begin_text(self) -> None:
        self._odds.begin_text()

    def estimate(self, evidence: Evidence) -> float:
        return self._odds.applied(self._usual(evidence))

    def _usual(self, evidence: Evidence) -> float:
        row, column = _cell(evidence)
        return self._kept[row][column] / self._tried[row][column]

    def learn(self, evidence: Evidence, kept: bool) -> None:
        self._odds.learn(self._usual(evidence), float(kept))
        row, column = _cell(evidence)
        self._tried[row][column] += 1.0
        self._kept[row][column] += kept


def _priors(probability: float) -> tuple[float, ...]:
    """For evidence that was seen once, always, mostly, and for one of many ways to go on."""
    return (probability, (1.0 + probability) / 2.0, 0.85 * probability, 0.5 * probability)


def _cell(evidence: Evidence) -> tuple[int, int]:
    row = sum(evidence.length >= start for start in _LENGTHS[1:])
    if evidence.total == 1:
        return row, 0
    if evidence.count == evidence.total:
        return row, 1
    return row, 2 if 2 * evidence.count > evidence.total else 3
