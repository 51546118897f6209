"""--speculate auto: draft while it pays, park a drafter while it does not.

Every question is answered before the token it is about is drawn, from what passes cost here, how
sure the drafter says it is and how often that was right (engine/control/draft_plan.py). Where
nothing pays, a drafter is tried again now and then, out of an allowance of 1 % of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.control.cost import CostModel
from engine.control.draft_plan import DraftCosts, DraftPlan
from engine.control.drafter_statistics import DrafterStatistics
from engine.control.drafting_memory import DraftingMemory, TextKind
from engine.control.exploration import ExplorationBudget
from engine.data.request import LONGEST_AUTO_DRAFT
from engine.data.rounds import RoundTrace

_MARGIN = 0.1  # of a plain round: below that a plan may be luck
_PRICE_WEIGHT = 0.05
_LONGEST_OUTLOOK = 256
_FREE_STEP = 0.004  # of a plain round


@dataclass(slots=True)
class _Round:
    """What was asked and answered in one round.

    is_open: False while a reply is prepared, when nothing is tried out.
    """

    number: int = 0
    is_open: bool = True
    drafter: str = ""
    is_probe: bool = False
    path_chance: float = 1.0
    confidences: list[float] = field(default_factory=list)
    looks: int = 0
    allowed: dict[str, bool] = field(default_factory=dict)
    held_back: bool = False


class AutoDraft:
    """Lives as long as the loaded pair, so what it learned carries over to the next reply."""

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self._accounts = DraftingMemory()
        self._kind: TextKind = "greedy"
        self._draft_max = LONGEST_AUTO_DRAFT
        self._round = _Round()
        self._price_share = 1.0  # of T(1): seconds per token at present
        self._allowance = ExplorationBudget()
        self._unread: dict[str, tuple[int, int]] = {}  # tokens, and at how many written
        self._added: tuple[float, ...] = ()

    def begin_reply(self, draft_max: int, kind: TextKind, max_tokens: int) -> None:
        """draft_max: the request's deepest proposal. max_tokens: of the reply at most."""
        self._draft_max = draft_max
        self._kind = kind
        self._allowance.begin_reply(max_tokens)
        self._unread = {}
        self._added = ()
        self._round = _Round(self._round.number, is_open=False)
        self._accounts.begin_reply()

    # Asked by the round loop and by drafters

    @property
    def parked(self) -> bool:
        return self._round.held_back

    def start_round(self) -> int:
        self._round = _Round(self._round.number + 1)
        self._added = ()
        return self._draft_max

    def may_catch_up(self, drafter: str, tokens: int) -> bool:
        self._unread[drafter] = tokens, self._allowance.written
        allowed = self._allows(drafter)
        self._round.held_back = self._round.held_back or not allowed
        return allowed

    def may_start(self, drafter: str) -> bool:
        if not self._allows(drafter):
            self._round.held_back = True
            return False
        state = self._round
        state.drafter, state.path_chance, state.looks = drafter, 1.0, 0
        state.confidences = []
        return True

    def may_step(self, drafter: str, depth: int) -> bool:
        if depth == 1:
            return True  # may_start has said so
        return self._plan(drafter).step_value(depth - 1, self._round.path_chance) > 0.0

    def should_continue(self, drafter: str, depth: int, confidence: float) -> bool:
        account, state = self._account(drafter), self._round
        account.look(confidence, depth)
        state.looks += 1
        chance = state.path_chance * account.chance.estimate(confidence, depth)
        if self._plan(drafter).add_value(depth, chance) <= 0.0:
            state.held_back = depth == 1
            return False
        state.confidences.append(confidence)
        state.path_chance = chance
        return True

    def worth_adding(self, drafter: str, chance: float, rows: int) -> bool:
        added = self._cost.pass_seconds(rows + 1) - self._cost.pass_seconds(rows)
        if chance * self._price <= added:
            self._round.held_back = self._round.held_back or rows == 1
            return False
        return True

    def worth(self, drafter: str, confidence: float | None = None) -> float:
        """Seconds that a round with this drafter is expected to save; for choosing among them.

        confidence: in its first token, if it is known without a look.
        """
        account, plan = self._account(drafter), self._plan(drafter)
        if account.is_resting(self._round.number):
            return 0.0
        if confidence is None:
            return plan.start_value if self._pays(drafter, plan.start_value) else 0.0
        return plan.add_value(1, account.chance.estimate(confidence, 1))

    # Deciding

    @property
    def _price(self) -> float:
        return self._price_share * self._cost.pass_seconds(1)

    def _allows(self, drafter: str) -> bool:
        known = self._round.allowed.get(drafter)
        if known is None:
            known = self._round.allowed[drafter] = self._decide(drafter)
        return known

    def _decide(self, drafter: str) -> bool:
        account, plan = self._account(drafter), self._plan(drafter)
        step = self._cost.draft_seconds(drafter)
        if step < _FREE_STEP * self._cost.pass_seconds(1):
            return not account.is_resting(self._round.number)  # its looks tell more than a plan
        if account.is_resting(self._round.number):
            return False
        if self._pays(drafter, plan.start_value):
            return True
        allowed = self._allowance.rounds * self._cost.pass_seconds(1)
        is_affordable = self._catching_up(drafter) + step <= allowed
        if not account.could_pay or not self._round.is_open or not is_affordable:
            return False
        account.begin_trial()
        self._round.is_probe = True
        return True

    def _pays(self, drafter: str, start_value: float) -> bool:
        """Whether rounds that save so much are worth the text that it has to take in first."""
        if start_value <= _MARGIN * self._cost.pass_seconds(1):
            return False
        rounds = min(self._allowance.left, _LONGEST_OUTLOOK) * self._price_share
        return start_value * rounds > self._catching_up(drafter)

    def _catching_up(self, drafter: str) -> float:
        """Seconds, as far as is known: a drafter that was not asked in this round is guessed at."""
        tokens, when = self._unread.get(drafter, (0, self._allowance.written))
        return (tokens + self._allowance.written - when) * self._cost.token_seconds(drafter)

    def _plan(self, drafter: str) -> DraftPlan:
        if not self._added:
            self._added = self._cost.added_seconds(self._draft_max)
        costs = DraftCosts(self._added, self._cost.draft_seconds(drafter), self._price)
        return self._account(drafter).plan(costs)

    def _account(self, drafter: str) -> DrafterStatistics:
        return self._accounts.of(drafter, self._kind)

    # Learning

    def finish_round(self, trace: RoundTrace) -> None:
        width = 1 + len(trace.proposed)
        self._cost.move_to(trace.position)
        self._cost.learn_pass(width, trace.seconds.target)
        self._cost.learn_rows(width, trace.seconds.other)
        plain, emitted = self._cost.pass_seconds(1), len(trace.emitted)
        took = trace.seconds.draft + self._cost.pass_seconds(width)
        self._accounts.speed(self._kind).add(
            emitted,
            emitted * self._cost.recent_seconds(1),
            trace.seconds.draft + self._cost.recent_seconds(width),
        )
        self._price_share += _PRICE_WEIGHT * (took / max(1, emitted) / plain - self._price_share)
        self._price_share = min(self._price_share, 1.0)
        self._allowance.add(emitted)
        drafter = self._round.drafter
        self._accounts.fade_others(drafter, self._kind, emitted)
        if drafter:
            self._learn_draft(trace, emitted * plain - took)
        self._round.held_back = False

    def _learn_draft(self, trace: RoundTrace, saved: float) -> None:
        """Of the drafter that was let start last: the nodes may be its members'."""
        state, drafter = self._round, self._round.drafter
        account, plain = self._account(drafter), self._cost.pass_seconds(1)
        looks = state.looks or max((node.depth for node in trace.proposed), default=0)
        behind, _ = self._unread.get(drafter, (0, 0))
        if state.looks:
            self._unread[drafter] = 0, self._allowance.written
        self._cost.learn_draft(drafter, trace.seconds.draft, looks, behind)
        for depth, confidence, kept in _judged(trace, state.confidences):
            account.chance.learn(confidence, kept, depth)
        if state.is_probe:
            self._allowance.spend(max(0.0, -saved / plain))
        promising = self._plan(drafter).start_value > 0.0
        account.settle(saved, plain, state.number, promising)

    def predictions(self) -> dict[TextKind, float]:
        """Expected speed-up by kind of text: what the last replies of that kind had."""
        return self._accounts.speed_ups()

    @property
    def has_drifted(self) -> bool:
        return self._cost.has_drifted

    # Kept between loads

    def to_json(self) -> dict[str, Any]:
        return self._accounts.to_json()

    def recall(self, content: Mapping[str, Any]) -> None:
        """Takes over what to_json wrote; ValueError, TypeError or KeyError if it is not that."""
        self._accounts = DraftingMemory.from_json(content)
        self._allowance.recall()


def _judged(trace: RoundTrace, confidences: list[float]) -> list[tuple[int, float, float]]:
    """(depth, confidence, chance kept) of the trunk up to the first rejection.

    Not whether it was kept: the chance, given what was drawn, varies less.
    """
    judged = []
    node = -1
    for depth, confidence in enumerate(confidences, start=1):
        child = next((i for i, one in enumerate(trace.proposed) if one.parent == node), None)
        if child is None:
            break
        one = trace.proposed[child]
        chance = one.p if one.q is None or one.q <= 0.0 else min(1.0, one.p / one.q)
        judged.append((depth, confidence, chance))
        if not one.accepted:
            break
        node = child
    return judged
