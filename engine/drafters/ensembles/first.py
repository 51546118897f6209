"""first(A,B,...): the first member with evidence drafts the round.

A member that has evidence still gives way to a later one whose round is expected to save more
time. The choice looks at no drawn token of another member, so it cannot bias the draft's law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.data.draft_policy import DraftPolicy
from engine.drafters.base import Drafter, DraftRound
from engine.drafters.ensembles.group import Group
from engine.drafters.ensembles.group_kind import GroupKind
from engine.maths.proposal import EMPTY_PROPOSAL, Proposal

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


class FirstDrafter(Group):
    kind = "first"
    takes_turns = True
    description = "the first of its members that has something to propose"

    def propose(self, round_: DraftRound) -> Proposal:
        self.open_round(round_)
        present = self.present()
        for index, member in enumerate(present):
            rivals = [round_.policy.of(rival.name) for rival in present[index + 1 :]]
            policy = _AgainstRivals(round_.policy.of(member.name), rivals)
            with self.guarded(member):
                proposal = member.propose(replace(round_, policy=policy))
                if len(proposal):
                    return proposal
        return EMPTY_PROPOSAL


@dataclass(frozen=True, slots=True)
class _AgainstRivals:
    """A first token must promise more than the rounds of members that come later."""

    own: DraftPolicy
    rivals: Sequence[DraftPolicy]

    def of(self, drafter: str) -> DraftPolicy:
        return _AgainstRivals(self.own.of(drafter), self.rivals)

    def may_catch_up(self, tokens: int) -> bool:
        return self.own.may_catch_up(tokens)

    def may_start(self) -> bool:
        return self.own.may_start()

    def may_step(self, depth: int) -> bool:
        return self.own.may_step(depth)

    def should_continue(self, depth: int, confidence: float) -> bool:
        if depth == 1 and self.rivals:
            saving = self.own.expected_saving(confidence)
            if any(rival.expected_saving() > saving for rival in self.rivals):
                return False
        return self.own.should_continue(depth, confidence)

    def pays_to_add(self, probability: float, rows: int) -> bool:
        return self.own.pays_to_add(probability, rows)

    def expected_saving(self, confidence: float | None = None) -> float:
        return self.own.expected_saving(confidence)


class First(GroupKind):
    name = "first"
    usage = "first(D,D)"
    label = "First"
    description = "The first one that has something to say"

    def combine(self, members: Sequence[Drafter], build: BuildContext) -> Drafter:
        return FirstDrafter(members)
