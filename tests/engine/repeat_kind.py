"""A drafter as small as they come: the last token once more. What a new kind of drafter takes."""

from __future__ import annotations

from collections.abc import Sequence

from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterKind, DrafterPlan, PlanContext
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal

_CONFIDENCE = 0.3


class RepeatDrafter:
    """A point mass, so every rule stays exact."""

    name = "repeat"
    description = "the last token once more"
    memory_bytes = 0
    needs: TargetNeeds = "nothing"
    max_leaves = 1

    def begin(self, prompt: Sequence[int]) -> None:
        pass

    def propose(self, round_: DraftRound) -> Proposal:
        if not round_.policy.may_start() or not round_.policy.should_continue(1, _CONFIDENCE):
            return EMPTY_PROPOSAL
        return Proposal((round_.context[-1],), (ROOT,), (self.name,), (None,))

    def observe(self, observation: Observation) -> None:
        pass

    def close(self) -> None:
        pass


class Repeat(DrafterKind):
    name = "repeat"
    usage = "repeat"
    label = "Once more"
    description = "Says the last token once more"
    needs_no_file = True

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        return DrafterPlan(expression, lambda build: RepeatDrafter())
