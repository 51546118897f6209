"""Whether drafting with one drafter pays, by its record, and when to try it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.control.acceptance_estimator import BINS, AcceptanceEstimator, ConfidenceHistory
from engine.control.draft_plan import DraftCosts, DraftPlan
from engine.control.tuning import TUNING, Tuning


class DrafterStatistics:
    """Of one drafter for one kind of text. Rounds are counted by the controller."""

    def __init__(self, tuning: Tuning = TUNING) -> None:
        self._tuning = tuning.statistics
        self.estimator = AcceptanceEstimator(adapts=True, tuning=tuning)
        self.confidences = ConfidenceHistory(tuning.history)
        self._plan: DraftPlan | None = None
        self._planned_for = DraftCosts((), 0.0, 0.0)
        self._steps_since_plan = 0
        self._patience = tuning.statistics.replan_steps
        self._could_pay: bool | None = None
        self._profit = 0.0
        self._rounds = 0
        self._rest_until = 0
        self._next_rest = tuning.statistics.shortest_rest
        self._trial_left = 0

    # Expected saving

    def plan(self, costs: DraftCosts) -> DraftPlan:
        """Made anew when enough was learned, or when costs have moved."""
        known = self._plan
        if known is None or self._steps_since_plan >= self._patience or self._has_moved(costs):
            known = DraftPlan(costs, self.estimator.table(), self.confidences.fractions())
            self._plan, self._planned_for, self._steps_since_plan = known, costs, 0
            self._could_pay = None
            patience = self._patience + self._tuning.replan_steps // 2
            self._patience = min(patience, self._tuning.longest_replan)
        return known

    def _has_moved(self, costs: DraftCosts) -> bool:
        before = self._planned_for
        limit = self._tuning.cost_tolerance * before.value
        return (
            len(before.added) != len(costs.added)
            or abs(before.value - costs.value) > limit
            or abs(before.step - costs.step) > limit
            or abs(sum(before.added) - sum(costs.added)) > limit * len(costs.added)
        )

    def _at_best(self, costs: DraftCosts) -> float:
        """Seconds saved by a round on text where the drafter always has its highest confidence."""
        confident = np.zeros((2, BINS))
        confident[:, -1] = 1.0
        kept = np.full_like(self.estimator.table(), self.estimator.most())
        return DraftPlan(costs, kept, confident).start_value

    @property
    def could_pay(self) -> bool:
        """False where it would pay on no text: then no trials are made."""
        if self._could_pay is None:
            self._could_pay = self._at_best(self._planned_for) > 0.0
        return self._could_pay

    # Resting and trying again

    def is_resting(self, round_number: int) -> bool:
        return round_number < self._rest_until

    def begin_trial(self) -> None:
        if self._trial_left == 0:
            self._trial_left = self._tuning.trial_rounds

    def step(self, confidence: float, depth: int) -> None:
        self.confidences.add(confidence, depth)
        self._steps_since_plan += 1

    def settle(self, saved: float, plain: float, round_number: int, promising: bool) -> None:
        """saved: seconds vs. a plain round. promising: whether the plan now expects a saving."""
        memory, settled = self._tuning.profit_memory, self._tuning.settled_rounds
        self._rounds += 1
        self._profit = memory * self._profit + (1 - memory) * saved
        if self._trial_left:
            self._trial_left -= 1
            if promising:
                self._trial_left = 0
            elif self._trial_left == 0:
                self._rest(round_number)
        elif self._rounds >= settled and self._profit < -self._tuning.loss * plain:
            self._rest(round_number)
        elif self._rounds > 2 * settled and promising:
            self._next_rest = self._tuning.shortest_rest

    def _rest(self, round_number: int) -> None:
        self._rest_until = round_number + self._next_rest
        self._next_rest = min(2 * self._next_rest, self._tuning.longest_rest)
        self._rounds = 0
        self._profit = 0.0

    def begin_reply(self) -> None:
        """Another text: earlier draft steps count less, and the next rest is shorter."""
        self.confidences.begin_text()
        self.estimator.begin_text()
        tuning = self._tuning
        self._steps_since_plan = self._patience = tuning.replan_steps
        self._next_rest = max(tuning.shortest_rest, self._next_rest // tuning.rest_divisor)

    # Kept between loads

    def to_json(self) -> dict[str, Any]:
        """The keys are those of the stored format."""
        return {"chance": self.estimator.to_json(), "looks": self.confidences.to_json()}

    @staticmethod
    def from_json(content: Mapping[str, Any], tuning: Tuning = TUNING) -> DrafterStatistics:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        statistics = DrafterStatistics(tuning)
        statistics.estimator = AcceptanceEstimator.from_json(
            content["chance"], adapts=True, tuning=tuning
        )
        statistics.confidences = ConfidenceHistory.from_json(content["looks"], tuning.history)
        return statistics
