"""--speculate auto: draft while it pays, park a drafter while it does not.

engine/control/drafter_policy.py answers a drafter's questions; this module learns from rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.control.cost import CostModel
from engine.control.drafter_policy import DrafterPolicy, ReplyState
from engine.control.drafting_memory import DraftingMemory, TextKind
from engine.control.exploration import ExplorationBudget
from engine.control.tuning import TUNING, Tuning
from engine.data.rounds import RoundTrace


class AutoDraft:
    """Lives as long as the loaded pair, so what it learned carries over to the next reply."""

    def __init__(self, cost: CostModel, tuning: Tuning = TUNING) -> None:
        budget = ExplorationBudget(tuning.exploration)
        self._state = ReplyState(cost, DraftingMemory(tuning), budget, tuning)

    def begin_reply(self, draft_max: int, kind: TextKind, max_tokens: int) -> None:
        """draft_max: the request's deepest proposal. max_tokens: of the reply at most."""
        self._state.begin_reply(draft_max, kind, max_tokens)

    def of(self, drafter: str) -> DrafterPolicy:
        return DrafterPolicy(self._state, drafter)

    @property
    def parked(self) -> bool:
        return self._state.round.held_back

    def start_round(self) -> int:
        self._state.begin_round()
        return self._state.draft_max

    # Learning

    def watch(self, trace: RoundTrace) -> None:
        """What the passes of a round took, whoever decided how far to draft."""
        cost, width = self._state.cost, 1 + len(trace.proposed)
        cost.move_to(trace.position)
        cost.learn_pass(width, trace.seconds.target)
        cost.learn_rows(width, trace.seconds.other)

    def plain_seconds(self, position: int) -> float:
        """Of a pass over a single token after so many, as late passes were."""
        self._state.cost.move_to(position)
        return self._state.cost.recent_seconds(1)

    def finish_round(self, trace: RoundTrace) -> None:
        self.watch(trace)
        state, cost = self._state, self._state.cost
        width = 1 + len(trace.proposed)
        plain, emitted = cost.pass_seconds(1), len(trace.emitted)
        took = trace.seconds.draft + cost.pass_seconds(width)
        state.memory.speed(state.kind).add(
            emitted,
            emitted * cost.recent_seconds(1),
            trace.seconds.draft + cost.recent_seconds(width),
        )
        ratio = took / max(1, emitted) / plain
        state.value_ratio += state.tuning.policy.value_weight * (ratio - state.value_ratio)
        state.value_ratio = min(state.value_ratio, 1.0)
        state.budget.add(emitted)
        drafter = state.round.drafter
        state.memory.fade_others(drafter, state.kind, emitted)
        if drafter:
            self._learn_draft(trace, emitted * plain - took)
        state.round.held_back = False

    def _learn_draft(self, trace: RoundTrace, saved: float) -> None:
        """For the drafter that started last; the proposed tokens may name its members instead."""
        state, round_, drafter = self._state, self._state.round, self._state.round.drafter
        statistics, plain = state.statistics(drafter), state.cost.pass_seconds(1)
        steps = round_.steps or max((node.depth for node in trace.proposed), default=0)
        behind, _ = state.unread.get(drafter, (0, 0))
        if round_.steps:
            state.unread[drafter] = 0, state.budget.written
        state.cost.learn_draft(drafter, trace.seconds.draft, steps, behind)
        for depth, confidence, kept in _judged(trace, round_.confidences):
            statistics.estimator.learn(confidence, kept, depth)
        if round_.is_probe:
            state.budget.spend(max(0.0, -saved / plain))
        promising = state.plan(drafter).start_value > 0.0
        statistics.settle(saved, plain, round_.number, promising)

    def predictions(self) -> dict[TextKind, float]:
        """Expected speed-up by kind of text: that of the last replies of this kind."""
        return self._state.memory.speed_ups()

    @property
    def has_drifted(self) -> bool:
        return self._state.cost.has_drifted

    # Kept between loads

    def to_json(self) -> dict[str, Any]:
        return self._state.memory.to_json()

    def recall(self, content: Mapping[str, Any]) -> None:
        """Reads what to_json wrote; ValueError, TypeError or KeyError if it is something else."""
        self._state.memory = DraftingMemory.from_json(content, self._state.tuning)
        self._state.budget.recall()


def _judged(trace: RoundTrace, confidences: list[float]) -> list[tuple[int, float, float]]:
    """(depth, confidence, probability kept) along the first children, up to the first rejection.

    The probability that a drawn token is kept, not the outcome: it has less variance.
    """
    judged = []
    node = -1
    for depth, confidence in enumerate(confidences, start=1):
        child = next((i for i, one in enumerate(trace.proposed) if one.parent == node), None)
        if child is None:
            break
        one = trace.proposed[child]
        kept = one.p if one.q is None or one.q <= 0.0 else min(1.0, one.p / one.q)
        judged.append((depth, confidence, kept))
        if not one.accepted:
            break
        node = child
    return judged
