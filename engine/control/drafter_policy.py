"""--speculate auto's answers to one drafter: is the next token expected to save time?

Every question is answered before the token it is about is drawn, from what passes cost here, how
confident the drafter is and how often that was right (engine/control/draft_plan.py). Where nothing
pays, a drafter is tried again now and then, within an exploration budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.control.cost import CostModel
from engine.control.draft_plan import DraftCosts, DraftPlan
from engine.control.drafter_statistics import DrafterStatistics
from engine.control.drafting_memory import DraftingMemory, TextKind
from engine.control.exploration import ExplorationBudget
from engine.control.tuning import TUNING, Tuning
from engine.data.request import LONGEST_AUTO_DRAFT


@dataclass(slots=True)
class RoundState:
    """What was asked and answered in one round.

    is_open: False while a reply is prepared, when nothing is tried out.
    """

    number: int = 0
    is_open: bool = True
    drafter: str = ""
    is_probe: bool = False
    path_probability: float = 1.0
    confidences: list[float] = field(default_factory=list)
    steps: int = 0
    allowed: dict[str, bool] = field(default_factory=dict)
    held_back: bool = False


@dataclass(slots=True)
class ReplyState:
    """What is the same for all drafters of a reply: costs, statistics, and the present round.

    value_ratio: seconds per token at present, over T(1). unread: per drafter, the number of tokens
    of the text it has not read, and of the reply's tokens then. added: seconds that the token at
    each depth adds to a pass, filled in once a round.
    """

    cost: CostModel
    memory: DraftingMemory
    budget: ExplorationBudget
    tuning: Tuning = TUNING
    kind: TextKind = "greedy"
    draft_max: int = LONGEST_AUTO_DRAFT
    value_ratio: float = 1.0
    round: RoundState = field(default_factory=RoundState)
    unread: dict[str, tuple[int, int]] = field(default_factory=dict)
    added: tuple[float, ...] = ()

    def begin_reply(self, draft_max: int, kind: TextKind, max_tokens: int) -> None:
        self.draft_max, self.kind = draft_max, kind
        self.budget.begin_reply(max_tokens)
        self.memory.begin_reply()
        self.unread = {}
        self.added = ()
        self.round = RoundState(self.round.number, is_open=False)

    def begin_round(self) -> None:
        self.round = RoundState(self.round.number + 1)
        self.added = ()

    @property
    def value_per_token(self) -> float:
        """Seconds that one token takes at present."""
        return self.value_ratio * self.cost.pass_seconds(1)

    def statistics(self, drafter: str) -> DrafterStatistics:
        return self.memory.of(drafter, self.kind)

    def plan(self, drafter: str) -> DraftPlan:
        if not self.added:
            self.added = self.cost.added_seconds(self.draft_max)
        step = self.cost.draft_seconds(drafter)
        return self.statistics(drafter).plan(DraftCosts(self.added, step, self.value_per_token))


@dataclass(frozen=True, slots=True)
class DrafterPolicy:
    """The DraftPolicy of one drafter (engine/data/draft_policy.py says what is asked)."""

    state: ReplyState
    drafter: str

    def of(self, drafter: str) -> DrafterPolicy:
        return DrafterPolicy(self.state, drafter)

    def may_catch_up(self, tokens: int) -> bool:
        state = self.state
        state.unread[self.drafter] = tokens, state.budget.written
        allowed = self._allowed()
        state.round.held_back = state.round.held_back or not allowed
        return allowed

    def may_start(self) -> bool:
        round_ = self.state.round
        if not self._allowed():
            round_.held_back = True
            return False
        round_.drafter, round_.path_probability, round_.steps = self.drafter, 1.0, 0
        round_.confidences = []
        return True

    def may_step(self, depth: int) -> bool:
        if depth == 1:
            return True  # may_start has decided
        plan = self.state.plan(self.drafter)
        return plan.step_value(depth - 1, self.state.round.path_probability) > 0.0

    def should_continue(self, depth: int, confidence: float) -> bool:
        statistics, round_ = self.state.statistics(self.drafter), self.state.round
        statistics.step(confidence, depth)
        round_.steps += 1
        kept = statistics.estimator.estimate(confidence, depth)
        probability = round_.path_probability * kept
        if self.state.plan(self.drafter).add_value(depth, probability) <= 0.0:
            round_.held_back = depth == 1
            return False
        round_.confidences.append(confidence)
        round_.path_probability = probability
        return True

    def pays_to_add(self, probability: float, rows: int) -> bool:
        cost, round_ = self.state.cost, self.state.round
        added = cost.pass_seconds(rows + 1) - cost.pass_seconds(rows)
        if probability * self.state.value_per_token <= added:
            round_.held_back = round_.held_back or rows == 1
            return False
        return True

    def expected_saving(self, confidence: float | None = None) -> float:
        statistics, plan = self.state.statistics(self.drafter), self.state.plan(self.drafter)
        if statistics.is_resting(self.state.round.number):
            return 0.0
        if confidence is None:
            return plan.start_value if self._pays(plan.start_value) else 0.0
        return plan.add_value(1, statistics.estimator.estimate(confidence, 1))

    # Deciding

    def _allowed(self) -> bool:
        """Settled once a round."""
        allowed = self.state.round.allowed
        if self.drafter not in allowed:
            allowed[self.drafter] = self._decide()
        return allowed[self.drafter]

    def _decide(self) -> bool:
        state, plan = self.state, self.state.plan(self.drafter)
        statistics, round_ = state.statistics(self.drafter), state.round
        if statistics.is_resting(round_.number):
            return False
        step, plain = state.cost.draft_seconds(self.drafter), state.cost.pass_seconds(1)
        if step < state.tuning.policy.free_step * plain:
            return True  # its confidence, known for nothing, says more than a plan
        if self._pays(plan.start_value):
            return True
        is_affordable = self._catching_up() + step <= state.budget.rounds * plain
        if not statistics.could_pay or not round_.is_open or not is_affordable:
            return False
        statistics.begin_trial()
        round_.is_probe = True
        return True

    def _pays(self, start_value: float) -> bool:
        """Whether rounds that save this much make up for the text that it has to read first."""
        state, tuning = self.state, self.state.tuning.policy
        if start_value <= tuning.margin * state.cost.pass_seconds(1):
            return False
        rounds = min(state.budget.left, tuning.longest_outlook) * state.value_ratio
        return start_value * rounds > self._catching_up()

    def _catching_up(self) -> float:
        """Seconds to read the unread text; an estimate if it was not asked in this round."""
        written = self.state.budget.written
        tokens, when = self.state.unread.get(self.drafter, (0, written))
        return (tokens + written - when) * self.state.cost.token_seconds(self.drafter)
