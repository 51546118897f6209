"""Which layers a model can best do without, for a drafter made of the rest.

Draft & Verify (Zhang et al. 2023, arXiv 2309.08168) looks for the set whose drafts the model itself
accepts most. Here one set is looked for per number of skipped layers: greedy elimination with a
beam, then seeded exchanges of single layers. Pure: what a set is worth comes from outside.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

Skip = tuple[int, ...]
"""Layers left out, ascending."""

BEAM = 2
EXPANDED = 8
"""Layers that are tried beside a set of the beam: those that do least harm when left out alone."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """most: layers to leave out. patience: exchanges in vain before the search ends.

    worst: sets that agree less often than this are not reduced any further.
    """

    most: int
    patience: int
    worst: float = 0.2
    seed: int = 1


class SearchStoppedError(Exception):
    """Raised by `evaluate` when no more sets are to be tried; the best so far stay."""


class SkipSearch:
    """evaluate(skip): share of the tokens that the model without these layers also chooses.

    guesses: sets to be tried before all others.
    """

    def __init__(
        self,
        layers: Iterable[int],
        limits: SearchLimits,
        evaluate: Callable[[Skip], float],
        guesses: Sequence[Skip] = (),
    ) -> None:
        self._layers = sorted(layers)
        self._limits = limits
        self._evaluate = evaluate
        self._guesses = tuple(guesses)
        self._random = random.Random(limits.seed)
        self._known: dict[Skip, float] = {}

    @property
    def best(self) -> Mapping[int, Skip]:
        """The best set by number of layers left out."""
        found: dict[int, Skip] = {}
        for skip, value in self._known.items():
            count = len(skip)
            if count not in found or value > self._known[found[count]]:
                found[count] = skip
        return dict(sorted(found.items()))

    def finalists(self, count: int, most: int) -> list[Skip]:
        """The `most` best sets of `count` layers, and the guesses of that size."""
        ranked = sorted(
            (skip for skip in self._known if len(skip) == count), key=self.value, reverse=True
        )
        return [*ranked[:most], *(skip for skip in ranked[most:] if skip in self._guesses)]

    def value(self, skip: Skip) -> float:
        """Of a set that was tried."""
        return self._known[skip]

    def run(self) -> bool:
        """False when it was stopped before it was done."""
        try:
            for guess in self._guesses:
                self._try(guess)
            self._eliminate()
            self._exchange()
        except SearchStoppedError:
            return False
        return True

    def _try(self, skip: Skip) -> float:
        if skip not in self._known:
            self._known[skip] = self._evaluate(skip)
        return self._known[skip]

    def _eliminate(self) -> None:
        alone: list[Skip] = [(layer,) for layer in self._layers]
        singles = sorted(alone, key=self._try, reverse=True)
        harmless = [skip[0] for skip in singles]
        beam = singles[:BEAM]
        for _ in range(2, self._limits.most + 1):
            if not beam or self._known[beam[0]] < self._limits.worst:
                return
            wider = {
                _with(skip, layer)
                for skip in beam
                for layer in [one for one in harmless if one not in skip][:EXPANDED]
            }
            beam = sorted(sorted(wider), key=self._try, reverse=True)[:BEAM]

    def _exchange(self) -> None:
        """One layer of a best set for another one, until that has been in vain for long."""
        in_vain = 0
        while in_vain < self._limits.patience:
            best = self.best
            count = self._random.choice(list(best))
            skip = best[count]
            others = [layer for layer in self._layers if layer not in skip]
            if not others:
                return
            dropped, added = self._random.choice(skip), self._random.choice(others)
            candidate = _with([layer for layer in skip if layer != dropped], added)
            before = self._known[skip]
            in_vain = 0 if self._try(candidate) > before else in_vain + 1


def _with(skip: Sequence[int], layer: int) -> Skip:
    return tuple(sorted((*skip, layer)))


@dataclass(frozen=True, slots=True)
class DraftCosts:
    """Seconds. passes: T(n) of the target by width; step: of a draft without `skipped` layers."""

    passes: Mapping[int, float]
    step: float
    skipped: int

    def draft_step(self, count: int) -> float:
        """One token of a drafter without `count` layers: a straight line through what was timed."""
        per_layer = max(0.0, (self.passes[1] - self.step) / self.skipped)
        return max(self.passes[1] - count * per_layer, 0.0)


def expected_speedup(
    agreement: float, step: float, passes: Mapping[int, float]
) -> tuple[float, int]:
    """Against plain decoding, with drafts of the best fixed length, and that length.

    Tokens are taken to be kept independently: 1 + a + ... + a^n tokens a round (Leviathan et al.
    2023, 2211.17192, equation 1).
    """
    best = (0.0, 1)
    for width, seconds in passes.items():
        length = width - 1
        if length >= 1:
            tokens = sum(agreement**depth for depth in range(width))
            # No pass is quicker than one of a single row: where it seemed to be, that was noise.
            speedup = tokens * passes[1] / (length * step + max(seconds, passes[1]))
            best = max(best, (speedup, length))
    return best
