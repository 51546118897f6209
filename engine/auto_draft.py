"""--speculate auto: draft while it pays, park a drafter while it does not.

A proposal grows while (chance that the next token is kept) x (time it would save) exceeds what
verifying it adds to the pass. A drafter whose rounds take longer per token than plain rounds
is parked; it is tried again after a pause that doubles each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.cost import CostModel
from engine.events import RoundTrace
from engine.kept_chance import KeptChance

_SHORTEST_PAUSE = 12
_LONGEST_PAUSE = 400
_PROBE_ROUNDS = 3
_PROFIT_MEMORY = 0.9


@dataclass(slots=True)
class _Account:
    """One drafter's balance: seconds saved per round, and its pause."""

    chance: KeptChance = field(default_factory=KeptChance)
    profit: float = 0.0
    rounds_since_pause: int = 0
    pause_left: int = 0
    next_pause: int = _SHORTEST_PAUSE

    def settle(self, saved: float) -> None:
        self.profit = _PROFIT_MEMORY * self.profit + (1 - _PROFIT_MEMORY) * saved
        self.rounds_since_pause += 1
        if self.rounds_since_pause < _PROBE_ROUNDS:
            return
        if self.profit < 0.0:
            self.pause_left = self.next_pause
            self.next_pause = min(2 * self.next_pause, _LONGEST_PAUSE)
            self.rounds_since_pause = 0
            self.profit = 0.0
        elif self.rounds_since_pause > 4 * _PROBE_ROUNDS:
            self.next_pause = _SHORTEST_PAUSE


class AutoDraft:
    """Lives as long as the loaded pair, so what it learned carries over to the next reply."""

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self._accounts: dict[str, _Account] = {}
        self._draft_max = 0
        self._confidences: list[float] = []
        self._chance_so_far = 1.0
        self._held_back = False
        self._drafting = ""
        self._seconds_per_token = cost.pass_seconds(1)

    def limit(self, draft_max: int) -> None:
        """The request's deepest proposal; call when a reply starts."""
        self._draft_max = draft_max

    @property
    def parked(self) -> bool:
        return self._held_back

    def start_round(self) -> int:
        self._held_back = False
        self._drafting = ""
        return self._draft_max

    def may_start(self, drafter: str) -> bool:
        account = self._account(drafter)
        if account.pause_left > 0:
            account.pause_left -= 1
            self._held_back = True
            return False
        self._confidences = []
        self._chance_so_far = 1.0
        self._drafting = drafter
        return True

    def should_continue(self, drafter: str, depth: int, confidence: float) -> bool:
        chance = self._account(drafter).chance.estimate(confidence) * self._chance_so_far
        added = self._cost.pass_seconds(depth + 1) - self._cost.pass_seconds(depth)
        # The step behind the first token is paid by the time its confidence is known.
        step = self._cost.draft_seconds(drafter) if depth > 1 else 0.0
        if chance * self._seconds_per_token <= added + step:
            self._held_back = depth == 1
            return False
        self._confidences.append(confidence)
        self._chance_so_far = chance
        return True

    def worth_adding(self, drafter: str, chance: float, rows: int) -> bool:
        added = self._cost.pass_seconds(rows + 1) - self._cost.pass_seconds(rows)
        if chance * self._seconds_per_token <= added:
            self._held_back = self._held_back or rows == 1
            return False
        return True

    def finish_round(self, trace: RoundTrace) -> None:
        self._held_back = False
        depths = [node.depth for node in trace.proposed]
        if not trace.proposed:
            if self._drafting:  # asked in vain, which costs what it took to ask
                self._account(self._drafting).settle(saved=-trace.seconds.draft)
            self._cost.learn_pass(1, trace.seconds.target)
            self._track_rate(trace)
            return
        drafter = self._drafting  # the last one that was let start; nodes may be its members'
        width = 1 + len(trace.proposed)
        self._cost.learn_pass(width, trace.seconds.target)
        self._cost.learn_draft(drafter, trace.seconds.draft / max(depths))
        account = self._account(drafter)
        accepted = _kept_of_trunk(trace)
        for depth, confidence in enumerate(self._confidences[: accepted + 1], start=1):
            account.chance.learn(confidence, kept=depth <= accepted)
        plain = self._cost.pass_seconds(1)
        extra = trace.seconds.draft + trace.seconds.target - plain
        account.settle(saved=(len(trace.emitted) - 1) * plain - extra)
        self._track_rate(trace)

    def _track_rate(self, trace: RoundTrace) -> None:
        """Seconds per token of the recent rounds: what one more kept token is worth."""
        seen = (trace.seconds.draft + trace.seconds.target) / max(1, len(trace.emitted))
        self._seconds_per_token += 0.1 * (seen - self._seconds_per_token)

    def _account(self, drafter: str) -> _Account:
        return self._accounts.setdefault(drafter, _Account())


def _kept_of_trunk(trace: RoundTrace) -> int:
    """Accepted tokens along the first children: those that should_continue was asked about."""
    kept, node = 0, -1
    while True:
        child = next((i for i, one in enumerate(trace.proposed) if one.parent == node), None)
        if child is None or not trace.proposed[child].accepted:
            return kept
        kept, node = kept + 1, child
