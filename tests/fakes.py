"""Scripted stand-ins for the engine's collaborators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from engine.maths.distribution import Distribution

Result = TypeVar("Result")


class BranchingStream:
    """A DrawStream that follows a script of choices and then the first possible one each time.

    `outcomes` runs a function once for every sequence of random decisions it can make, so laws
    are added up exactly instead of being estimated.
    """

    def __init__(self, script: tuple[int, ...]) -> None:
        self._script = script
        self.choices: list[int] = []
        self.options: list[int] = []
        self.weight = 1.0

    def uniform(self) -> float:
        raise AssertionError("a uniform has no finite number of outcomes: use accept or draw")

    def accept(self, probability: float) -> bool:
        assert 0.0 <= probability <= 1.0
        return bool(self._choose([(False, 1.0 - probability), (True, probability)]))

    def draw(self, distribution: Distribution, position: int) -> int:
        pairs = zip(distribution.ids, distribution.probabilities, strict=True)
        return self._choose([(int(token), float(mass)) for token, mass in pairs])

    def _choose(self, weighted: list[tuple[int, float]]) -> int:
        possible = [(value, weight) for value, weight in weighted if weight > 0.0]
        depth = len(self.choices)
        choice = self._script[depth] if depth < len(self._script) else 0
        self.choices.append(choice)
        self.options.append(len(possible))
        value, weight = possible[choice]
        self.weight *= weight
        return value


def outcomes(run: Callable[[BranchingStream], Result]) -> Iterator[tuple[float, Result]]:
    """Every result that `run` can have with its probability; a result may come several times."""
    pending: list[tuple[int, ...]] = [()]
    while pending:
        script = pending.pop()
        stream = BranchingStream(script)
        result = run(stream)
        yield stream.weight, result
        for depth in range(len(script), len(stream.choices)):
            before = tuple(stream.choices[:depth])
            pending.extend((*before, other) for other in range(1, stream.options[depth]))
