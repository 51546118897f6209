"""first(A,B,...): the first member with evidence drafts the round.

A member that has evidence still gives way to a later one whose round is expected to save more
time. The choice looks at no drawn token of another member, so it cannot bias the draft's law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.data.draft_policy import DraftPolicy
from engine.drafters.base import Drafter, DraftRound
from engine.drafters.ensembles.group import Group
from engine.maths.proposal import EMPTY_PROPOSAL, Proposal


class FirstDrafter(Group):
    kind = "first"
    takes_turns = True
    description = "the first of its members that has something to propose"

    def propose(self, round_: DraftRound) -> Proposal:
        self.open_round(round_)
        present = self.present()
        for place, member in enumerate(present):
            policy = _AgainstRivals(round_.policy, present[place + 1 :])
            with self.guarded(member):
                proposal = member.propose(replace(round_, policy=policy))
                if len(proposal):
                    return proposal
        return EMPTY_PROPOSAL


@dataclass(frozen=True, slots=True)
class _AgainstRivals:
    """A first token must promise more than the rounds of members that come later."""

    outer: DraftPolicy
    rivals: Sequence[Drafter]

    def may_catch_up(self, drafter: str, tokens: int) -> bool:
        return self.outer.may_catch_up(drafter, tokens)

    def may_start(self, drafter: str) -> bool:
        return self.outer.may_start(drafter)

    def may_step(self, drafter: str, depth: int) -> bool:
        return self.outer.may_step(drafter, depth)

    def should_continue(self, drafter: str, depth: int, confidence: float) -> bool:
        if depth == 1 and self.rivals:
            own = self.outer.worth(drafter, confidence)
            if any(self.outer.worth(rival.name) > own for rival in self.rivals):
                return False
        return self.outer.should_continue(drafter, depth, confidence)

    def worth_adding(self, drafter: str, chance: float, rows: int) -> bool:
        return self.outer.worth_adding(drafter, chance, rows)

    def worth(self, drafter: str, confidence: float | None = None) -> float:
        return self.outer.worth(drafter, confidence)
