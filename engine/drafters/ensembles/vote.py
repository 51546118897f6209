"""vote(A,B,...): the token with most votes among the members' likeliest ones.

A weighted plurality, decided by the text and what was learned before: a point mass, so exact.
A vote counts for what its member is worth (learned online) times the probability that a member
that is so sure is right (learned too), so that a weak voter cannot hurt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.control.acceptance_estimator import AcceptanceEstimator
from engine.drafters.base import Drafter, Observation, StepDrafter
from engine.drafters.ensembles.ensemble import ChainEnsemble
from engine.drafters.ensembles.group_kind import GroupKind
from engine.drafters.ensembles.weights import MemberWeights, agreements, verified_predictions
from engine.maths.distribution import Distribution
from engine.maths.proposal import MemberPrediction

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


class VoteDrafter(ChainEnsemble):
    kind = "vote"
    purpose = "the token most of its members would write, each weighted by its record"

    def __init__(self, members: Sequence[StepDrafter], threads: int = 1) -> None:
        super().__init__(members, threads)
        self._weights = MemberWeights([member.name for member in members])
        self._estimators = {member.name: AcceptanceEstimator() for member in members}

    def _prediction(self, member: StepDrafter, parent: int, confidence: float) -> MemberPrediction:
        token = member.distribution().most_likely()
        return MemberPrediction(member.name, parent, token, None, confidence)

    def _tally(self, ballots: Sequence[MemberPrediction]) -> dict[int, float]:
        """Token to its votes, in the order of the members."""
        weights = self._weights.weights([ballot.drafter for ballot in ballots])
        votes: dict[int, float] = defaultdict(float)
        for ballot, weight in zip(ballots, weights, strict=True):
            votes[ballot.token] += weight * self._probability(ballot)
        return votes

    def _probability(self, ballot: MemberPrediction) -> float:
        return self._estimators[ballot.drafter].estimate(ballot.confidence)

    def _winner(self, ballots: Sequence[MemberPrediction]) -> int:
        votes = self._tally(ballots)
        return max(votes, key=lambda token: votes[token])  # the first member's among equals

    def _confidence(self, ballots: Sequence[MemberPrediction]) -> float:
        """Of the surest member that voted for the winner, less what others say against it."""
        votes = self._tally(ballots)
        winner = self._winner(ballots)
        surest = max(self._probability(ballot) for ballot in ballots if ballot.token == winner)
        return surest * votes[winner] / sum(votes.values())

    def _combine(self, ballots: Sequence[MemberPrediction]) -> Distribution:
        return Distribution.point_mass(self._winner(ballots))

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        """The tokens voted for, with their fractions of the votes."""
        votes = self._tally(self._current) if self._current else {}
        fractions = [(token, vote / sum(votes.values())) for token, vote in votes.items()]
        return sorted(fractions, key=lambda pair: -pair[1])[:count]

    def _learn(self, observation: Observation) -> None:
        for p, ballots in verified_predictions(observation):
            own = [ballot for ballot in ballots if ballot.drafter in self._estimators]
            if own:
                kept = agreements(p, own)
                self._weights.learn(kept)
                for ballot in own:
                    self._estimators[ballot.drafter].learn(ballot.confidence, kept[ballot.drafter])


class Vote(GroupKind):
    name = "vote"
    usage = "vote(D,D)"
    label = "Vote"
    description = "The token most of them would write, each weighted by its record"

    def combine(self, members: Sequence[Drafter], build: BuildContext) -> Drafter:
        return VoteDrafter(self.steppers(members), build.threads_of_members)
