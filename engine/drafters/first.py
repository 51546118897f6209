"""first(A,B,...): the first member with evidence drafts the round.

The choice looks at no drawn token of another member, so it cannot bias the draft's law.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.drafters.base import Drafter, DraftRound, Observation, TargetNeeds
from engine.proposal import EMPTY_PROPOSAL, Proposal


class FirstDrafter:
    def __init__(self, members: Sequence[Drafter]) -> None:
        self.members = tuple(members)

    @property
    def name(self) -> str:
        return f"first({','.join(member.name for member in self.members)})"

    @property
    def description(self) -> str:
        return "the first of its members that has something to propose"

    @property
    def memory_bytes(self) -> int:
        return sum(member.memory_bytes for member in self.members)

    @property
    def needs(self) -> TargetNeeds:
        return next((m.needs for m in self.members if m.needs != "nothing"), "nothing")

    @property
    def max_leaves(self) -> int:
        return max(member.max_leaves for member in self.members)

    def begin(self, prompt: Sequence[int]) -> None:
        for member in self.members:
            member.begin(prompt)

    def propose(self, round_: DraftRound) -> Proposal:
        for member in self.members:
            proposal = member.propose(round_)
            if len(proposal):
                return proposal
        return EMPTY_PROPOSAL

    def observe(self, observation: Observation) -> None:
        for member in self.members:
            member.observe(observation)

    def close(self) -> None:
        for member in self.members:
            member.close()
