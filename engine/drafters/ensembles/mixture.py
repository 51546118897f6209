"""mixture(A,B,...): every token is drawn from the members' pooled distribution, and verified by it.

q-bar = sum of w_d q_d over the members that have something to say. The probability that a token is
kept, the sum of min(p, q-bar), is concave in the weights, so that a mixture keeps at least the
weighted mean of what its members keep, and often more than the best of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.drafters.base import Drafter, Observation, StepDrafter
from engine.drafters.ensembles.ensemble import ChainEnsemble
from engine.drafters.ensembles.group_kind import GroupKind
from engine.drafters.ensembles.weights import MemberWeights, verified_predictions
from engine.maths.distribution import Distribution
from engine.maths.proposal import MemberPrediction

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


class MixtureDrafter(ChainEnsemble):
    """Greedy requests take the likeliest token of the pool, so there it is a vote."""

    kind = "mixture"
    purpose = "draws from the pooled distribution of its members"

    def __init__(self, members: Sequence[StepDrafter], threads: int = 1) -> None:
        super().__init__(members, threads)
        self._weights = MemberWeights([member.name for member in members])

    def _prediction(self, member: StepDrafter, parent: int, confidence: float) -> MemberPrediction:
        q = member.distribution()
        return MemberPrediction(member.name, parent, q.most_likely(), q, confidence)

    def _pool(self, predictions: Sequence[MemberPrediction]) -> Distribution:
        weights = self._weights.weights([prediction.drafter for prediction in predictions])
        return pooled([_law(prediction) for prediction in predictions], weights)

    def _confidence(self, predictions: Sequence[MemberPrediction]) -> float:
        weights = self._weights.weights([prediction.drafter for prediction in predictions])
        return sum(w * b.confidence for w, b in zip(weights, predictions, strict=True))

    def _combine(self, predictions: Sequence[MemberPrediction]) -> Distribution:
        pool = self._pool(predictions)
        if self._is_greedy:
            return Distribution.point_mass(pool.most_likely())
        return pool

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        if not self._current:
            return ()
        pool = self._pool(self._current)
        order = np.argsort(-pool.probabilities, kind="stable")[:count]
        return [(int(pool.ids[i]), float(pool.probabilities[i])) for i in order]

    def _learn(self, observation: Observation) -> None:
        """A step along the gradient of the sum of min(p, q-bar) in the weights."""
        known = {member.name for member in self.members}
        for p, predictions in verified_predictions(observation):
            own = [prediction for prediction in predictions if prediction.drafter in known]
            if own:
                pool = self._pool(own)
                self._weights.learn({b.drafter: _missing_mass(_law(b), pool, p) for b in own})

    @property
    def _is_greedy(self) -> bool:
        return self._round is not None and self._round.sampler.params.temperature == 0.0


def pooled(distributions: Sequence[Distribution], weights: Sequence[float]) -> Distribution:
    """Sum of weight times distribution; the weights add up to 1."""
    if len(distributions) == 1:
        return distributions[0]
    ids, indices = np.unique(np.concatenate([d.ids for d in distributions]), return_inverse=True)
    mass = np.concatenate(
        [w * d.probabilities for w, d in zip(weights, distributions, strict=True)]
    )
    probabilities = np.bincount(indices, weights=mass, minlength=len(ids))
    possible = probabilities > 0.0
    return Distribution(ids[possible], probabilities[possible] / probabilities.sum())


def _law(prediction: MemberPrediction) -> Distribution:
    return prediction.q if prediction.q is not None else Distribution.point_mass(prediction.token)


def _missing_mass(q: Distribution, pool: Distribution, p: Distribution) -> float:
    """How much of q falls on tokens of which the pool has less than the target: 0..1."""
    wanted = p.probability_of(q.ids) > pool.probability_of(q.ids)
    return float(q.probabilities[wanted].sum())


class Mixture(GroupKind):
    name = "mixture"
    usage = "mixture(D,D)"
    label = "Mixture"
    description = "Every token drawn from the pooled distribution of them all"

    def combine(self, members: Sequence[Drafter], build: BuildContext) -> Drafter:
        return MixtureDrafter(self.steppers(members), build.threads_of_members)
