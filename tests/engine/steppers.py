"""Drafters that go token by token through a toy model, and rounds of them on a toy target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from engine.control.controller import AlwaysDraft
from engine.data.request import Coupling, DraftMode, SamplingParams
from engine.drafters.base import Drafter, DraftRound, Observation, TargetNeeds
from engine.drafters.stepping import draft_chain
from engine.maths.acceptance import choose_rule, verify
from engine.maths.distribution import Distribution
from engine.maths.proposal import MemberPrediction, Proposal
from engine.maths.randomness import DraftStream
from engine.maths.sampling import Sampler
from tests.engine.toys import Toy, emitted, node_targets, sequence_probability
from tests.fakes import BranchingStream, outcomes

_EXACT = 1e-12
Make = Callable[[], Drafter]


class ToyStepper:
    """silent_after: has nothing more to say after so many tokens of the text."""

    description = "scripted"
    memory_bytes = 7
    needs: TargetNeeds = "nothing"
    max_leaves = 1

    def __init__(
        self, name: str, model: Toy, silent_after: int = 10**9, deterministic: bool = False
    ) -> None:
        self.name = name
        self.observed: list[Observation] = []
        self.closed = 0
        self._model = model
        self._silent_after = silent_after
        self._deterministic = deterministic
        self._prefix: tuple[int, ...] = ()

    def begin(self, prompt: Sequence[int]) -> None:
        self._prefix = tuple(prompt)

    def propose(self, round_: DraftRound) -> Proposal:
        return draft_chain(self, round_)

    def observe(self, observation: Observation) -> None:
        self.observed.append(observation)

    def close(self) -> None:
        self.closed += 1

    def start(self, round_: DraftRound) -> bool:
        self._prefix = tuple(round_.context)
        return len(self._prefix) < self._silent_after

    def peek(self) -> float | None:
        if len(self._prefix) >= self._silent_after:
            return None
        return float(self._model(self._prefix).probabilities.max())

    def distribution(self) -> Distribution:
        q = self._model(self._prefix)
        return Distribution.point_mass(q.most_likely()) if self._deterministic else q

    def advance(self, token: int) -> None:
        self._prefix = (*self._prefix, token)

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        q = self._model(self._prefix)
        pairs = [(int(t), float(m)) for t, m in zip(q.ids, q.probabilities, strict=True)]
        return sorted(pairs, key=lambda pair: -pair[1])[:count]

    def predictions(self) -> Sequence[MemberPrediction]:
        return ()


@dataclass(frozen=True)
class Setting:
    """How a toy round is drafted and verified."""

    depth: int
    temperature: float = 1.0
    mode: DraftMode = "sampled"
    coupling: Coupling = "best"
    max_nodes: int = 64

    def round(self, context: Sequence[int], stream: DraftStream) -> DraftRound:
        return DraftRound(
            context=list(context),
            max_depth=self.depth,
            sampler=Sampler(SamplingParams(temperature=self.temperature)),
            mode=self.mode,
            stream=stream,
            policy=AlwaysDraft(self.depth),
            max_nodes=self.max_nodes,
        )


def play_round(
    drafter: Drafter, p: Toy, text: tuple[int, ...], setting: Setting, stream: BranchingStream
) -> tuple[int, ...]:
    """The text after one round, as the round loop plays it."""
    proposal = drafter.propose(setting.round(text, stream)).first_nodes(setting.max_nodes)
    targets = node_targets(lambda prefix: p(text + prefix), proposal)
    rule = choose_rule(proposal, setting.coupling)
    verdict = verify(proposal, targets, len(text), rule, stream)
    new = emitted(proposal, verdict)
    on_path = (targets[0], *(targets[1 + node] for node in verdict.path))
    drafter.observe(Observation(proposal, verdict.path, new, targets=on_path))
    return text + new


def play(
    make: Callable[[], Drafter], p: Toy, rounds: int, setting: Setting, length: int
) -> Callable[[BranchingStream], tuple[int, ...]]:
    """Plays rounds from an empty text with a new drafter each time; the first `length` tokens."""

    def run(stream: BranchingStream) -> tuple[int, ...]:
        drafter = make()
        drafter.begin(())
        text: tuple[int, ...] = ()
        for _ in range(rounds):
            text = play_round(drafter, p, text, setting, stream)
        return text[:length]

    return run


def assert_law(p: Toy, make: Make, rounds: int, setting: Setting, length: int) -> None:
    """The text after some rounds, every random decision enumerated, has the law of p."""
    law: dict[tuple[int, ...], float] = {}
    for weight, text in outcomes(play(make, p, rounds, setting, length)):
        # A round may have emitted less: the rest is drawn from p, which sums to its weight.
        law[text] = law.get(text, 0.0) + weight
    assert sum(law.values()) == pytest.approx(1.0, abs=_EXACT)
    for text in law:
        reached = sum(mass for other, mass in law.items() if other[: len(text)] == text)
        shorter = sum(
            mass * sequence_probability(p, text, len(other))
            for other, mass in law.items()
            if len(other) < len(text) and text[: len(other)] == other
        )
        assert reached + shorter == pytest.approx(sequence_probability(p, text), abs=_EXACT)
