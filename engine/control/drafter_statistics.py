"""What one drafter's record says about drafting with it, and when to try it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.control.acceptance_estimator import BINS, AcceptanceEstimator, ConfidenceHistory
from engine.control.draft_plan import DraftCosts, DraftPlan

_SHORTEST_REST = 8
_LONGEST_REST = 48
_TRIAL_ROUNDS = 3
_SETTLED_ROUNDS = 8
_PROFIT_MEMORY = 0.9
_REPLAN_STEPS = 6
_RARELY = 48
_VALUE_TOLERANCE = 0.06


class DrafterStatistics:
    """Of one drafter for one kind of text. Rounds are counted by the controller."""

    def __init__(self) -> None:
        self.estimator = AcceptanceEstimator(adapts=True)
        self.confidences = ConfidenceHistory()
        self._plan: DraftPlan | None = None
        self._planned_for = DraftCosts((), 0.0, 0.0)
        self._steps_since_plan = 0
        self._patience = _REPLAN_STEPS
        self._could_pay: bool | None = None
        self._profit = 0.0
        self._rounds = 0
        self._rest_until = 0
        self._next_rest = _SHORTEST_REST
        self._trial_left = 0

    # What drafting is worth

    def plan(self, costs: DraftCosts) -> DraftPlan:
        """Made anew when enough was learned, or when costs have moved."""
        known = self._plan
        if known is None or self._steps_since_plan >= self._patience or self._has_moved(costs):
            known = DraftPlan(costs, self.estimator.table(), self.confidences.shares())
            self._plan, self._planned_for, self._steps_since_plan = known, costs, 0
            self._could_pay = None
            self._patience = min(self._patience + _REPLAN_STEPS // 2, _RARELY)
        return known

    def _has_moved(self, costs: DraftCosts) -> bool:
        before = self._planned_for
        limit = _VALUE_TOLERANCE * before.value
        return (
            len(before.added) != len(costs.added)
            or abs(before.value - costs.value) > limit
            or abs(before.step - costs.step) > limit
            or abs(sum(before.added) - sum(costs.added)) > limit * len(costs.added)
        )

    def _at_best(self, costs: DraftCosts) -> float:
        """Seconds saved by a round on text where the drafter is as sure as it ever is."""
        sure = np.zeros((2, BINS))
        sure[:, -1] = 1.0
        chances = np.full_like(self.estimator.table(), self.estimator.most())
        return DraftPlan(costs, chances, sure).start_value

    @property
    def could_pay(self) -> bool:
        """False where no text at all would make it pay: then nothing is spent on trying."""
        if self._could_pay is None:
            self._could_pay = self._at_best(self._planned_for) > 0.0
        return self._could_pay

    # Resting and trying again

    def is_resting(self, round_number: int) -> bool:
        return round_number < self._rest_until

    def begin_trial(self) -> None:
        if self._trial_left == 0:
            self._trial_left = _TRIAL_ROUNDS

    def step(self, confidence: float, depth: int) -> None:
        self.confidences.add(confidence, depth)
        self._steps_since_plan += 1

    def settle(self, saved: float, plain: float, round_number: int, promising: bool) -> None:
        """saved: seconds against a plain round. promising: what the plan says afterwards."""
        self._rounds += 1
        self._profit = _PROFIT_MEMORY * self._profit + (1 - _PROFIT_MEMORY) * saved
        if self._trial_left:
            self._trial_left -= 1
            if promising:
                self._trial_left = 0
            elif self._trial_left == 0:
                self._rest(round_number)
        elif self._rounds >= _SETTLED_ROUNDS and self._profit < -0.03 * plain:
            self._rest(round_number)
        elif self._rounds > 2 * _SETTLED_ROUNDS and promising:
            self._next_rest = _SHORTEST_REST

    def _rest(self, round_number: int) -> None:
        self._rest_until = round_number + self._next_rest
        self._next_rest = min(2 * self._next_rest, _LONGEST_REST)
        self._rounds = 0
        self._profit = 0.0

    def begin_reply(self) -> None:
        """Other text: what was seen last says less, and a rest is over sooner."""
        self.confidences.begin_text()
        self.confidences.fade(_TOKENS_OF_A_REPLY)
        self.estimator.begin_text()
        self._steps_since_plan = self._patience = _REPLAN_STEPS
        self._next_rest = max(_SHORTEST_REST, self._next_rest // 4)

    # Kept between loads

    def to_json(self) -> dict[str, Any]:
        return {"chance": self.estimator.to_json(), "looks": self.confidences.to_json()}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> DrafterStatistics:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        statistics = DrafterStatistics()
        statistics.estimator = AcceptanceEstimator.from_json(content["chance"], adapts=True)
        statistics.confidences = ConfidenceHistory.from_json(content["looks"])
        return statistics


_TOKENS_OF_A_REPLY = 24.0
