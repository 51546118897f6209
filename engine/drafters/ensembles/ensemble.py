"""Ensembles that draft one chain together, token by token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from engine.data.draft_cost import DraftCost
from engine.data.draft_policy import DraftPolicy
from engine.drafters.base import DraftRound, Observation, StepDrafter
from engine.drafters.ensembles.group import Group
from engine.drafters.ensembles.parallel import ParallelMembers
from engine.drafters.stepping import draft_chain
from engine.maths.distribution import Distribution
from engine.maths.proposal import MemberPrediction, Proposal


class ChainEnsemble(Group, ABC):
    """All members see the same prefix, the one drafted together; some may have nothing to say.

    A subclass says what its members' next tokens amount to (`_prediction`, `_confidence`,
    `_combine`) and learns from the outcome (`_learn`). What it learned is fixed while a
    round is drafted.

    threads: more than one lets members draft side by side, if that is measured to be faster. The
    tokens are the same either way: members do not depend on each other's passes.
    """

    purpose: str

    def __init__(self, members: Sequence[StepDrafter], threads: int = 1) -> None:
        super().__init__(members)
        self._steppers = tuple(members)
        self.parallel = ParallelMembers(members, threads)
        self._active: list[StepDrafter] = []
        self._advanced = 0
        self._predictions: list[MemberPrediction] = []
        self._current: list[MemberPrediction] = []  # of the next token
        self._round: DraftRound | None = None

    @abstractmethod
    def _prediction(self, member: StepDrafter, parent: int, confidence: float) -> MemberPrediction:
        """The member's say on the token below node `parent`."""

    @abstractmethod
    def _confidence(self, predictions: Sequence[MemberPrediction]) -> float:
        """Of the token that `_combine` stands for, in 0..1."""

    @abstractmethod
    def _combine(self, predictions: Sequence[MemberPrediction]) -> Distribution:
        """The distribution that the ensemble draws from: predictions is not empty."""

    @abstractmethod
    def alternatives(self, count: int) -> Sequence[tuple[int, float]]: ...

    @abstractmethod
    def _learn(self, observation: Observation) -> None: ...

    @property
    def description(self) -> str:
        found = self.parallel.description
        return f"{self.purpose}; {found}" if found else self.purpose

    def draft_costs(self) -> Mapping[str, DraftCost]:
        """Decides as well whether members draft side by side."""
        self.parallel.use_all_threads()
        costs = super().draft_costs()
        self.parallel.measure()
        if (
            not self.parallel.side_by_side
            or not self.parallel.in_turn
            or not self.parallel.together
        ):
            return costs
        own = costs[self.name]
        saved = own.step * (1.0 - self.parallel.together / self.parallel.in_turn)
        return {**costs, self.name: DraftCost(own.step - saved, own.token)}

    def prepare(self, policy: DraftPolicy) -> None:
        self.parallel.use_all_threads()
        super().prepare(policy)

    def propose(self, round_: DraftRound) -> Proposal:
        return draft_chain(self, round_)

    def observe(self, observation: Observation) -> None:
        self._learn(observation)
        super().observe(observation)

    def close(self) -> None:
        self.parallel.close()
        super().close()

    # Step by step

    def start(self, round_: DraftRound) -> bool:
        self.open_round(round_)
        self._round = round_
        self._advanced = 0
        self._predictions = []
        self._current = []
        self._active = []
        for member in filter(self.has, self._steppers):
            with self.guarded(member):
                if member.start(round_):
                    self._active.append(member)
        return bool(self._active)

    def peek(self) -> float | None:
        if not self._current:
            self._current = self._ask()
            self._predictions.extend(self._current)
        return self._confidence(self._current) if self._current else None

    def _ask(self) -> list[MemberPrediction]:
        predictions = []
        going = self._going()
        for member, peek in zip(going, self.parallel.peeks(going), strict=True):
            with self.guarded(member):
                confidence = peek()
                if confidence is not None:
                    predictions.append(self._prediction(member, self._advanced - 1, confidence))
        return predictions

    def _going(self) -> list[StepDrafter]:
        """Members that take part in this draft and have not failed."""
        return [member for member in self._active if self.has(member)]

    def distribution(self) -> Distribution:
        return self._combine(self._current)

    def advance(self, token: int) -> None:
        for member in self._going():
            with self.guarded(member):
                member.advance(token)
        self._advanced += 1
        self._current = []

    def predictions(self) -> Sequence[MemberPrediction]:
        return (*self._predictions, *(b for member in self._going() for b in member.predictions()))
