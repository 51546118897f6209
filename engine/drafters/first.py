"""first(A,B,...): the first member with evidence drafts the round.

The choice looks at no drawn token of another member, so it cannot bias the draft's law.
"""

from __future__ import annotations

from engine.drafters.base import DraftRound
from engine.drafters.group import Group
from engine.proposal import EMPTY_PROPOSAL, Proposal


class FirstDrafter(Group):
    kind = "first"
    description = "the first of its members that has something to propose"

    def propose(self, round_: DraftRound) -> Proposal:
        self.open_round(round_)
        for member in self.present():
            with self.guarded(member):
                proposal = member.propose(round_)
                if len(proposal):
                    return proposal
        return EMPTY_PROPOSAL
