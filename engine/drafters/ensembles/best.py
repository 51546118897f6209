"""best(A,B,...): the member whose round is expected to save most time drafts it.

Where nothing is measured, the member that agreed most with the target of late.

Chosen before anything is drawn, so it cannot bias the draft's law. Only the member that drafts
costs anything; the others get a round now and then, so that a better one is found out (a bandit
over drafters: BanditSpec, 2505.15141).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.data.draft_policy import DraftPolicy
from engine.drafters.base import Drafter, DraftRound, Observation
from engine.drafters.ensembles.group import Group
from engine.drafters.ensembles.group_kind import GroupKind
from engine.maths.acceptance import agreement
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, MemberPrediction, Proposal

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext

_MEMORY = 0.95
_PRIOR = 0.9
_EXPLORE_EVERY = 12
"""Every so many rounds the member that has waited longest drafts."""


@dataclass(slots=True)
class _Record:
    """agreement: moving average over the positions where the target verified the member's token."""

    agreement: float = _PRIOR
    last_round: int = 0


class BestDrafter(Group):
    kind = "best"
    takes_turns = True
    description = "the one of its members that agreed most with the target of late"

    def __init__(self, members: Sequence[Drafter]) -> None:
        super().__init__(members)
        self._records = {member.name: _Record() for member in members}
        self._round_number = 0
        self._chosen: Drafter | None = None

    def propose(self, round_: DraftRound) -> Proposal:
        """The best member's proposal; the next best one's where it has nothing to say."""
        self.open_round(round_)
        self._round_number += 1
        self._chosen = None
        for member in self._order(round_.policy):
            with self.guarded(member):
                proposal = member.propose(replace(round_, policy=round_.policy.of(member.name)))
                if len(proposal):
                    self._chosen = member
                    self._records[member.name].last_round = self._round_number
                    return proposal
        return EMPTY_PROPOSAL

    def _order(self, policy: DraftPolicy) -> list[Drafter]:
        """From the text and earlier rounds alone: nothing of this round has been drawn yet."""
        explores = self._round_number % _EXPLORE_EVERY == 0

        def rank(member: Drafter) -> tuple[int, float, float]:
            record = self._records[member.name]
            waited = self._round_number - record.last_round
            saving = policy.of(member.name).expected_saving()
            return (waited if explores else 0, saving, record.agreement)

        return sorted(self.present(), key=rank, reverse=True)

    def observe(self, observation: Observation) -> None:
        if self._chosen is not None:
            record = self._records[self._chosen.name]
            for kept in _agreements(observation):
                record.agreement += (1.0 - _MEMORY) * (kept - record.agreement)
        super().observe(observation)


def _agreements(observation: Observation) -> list[float]:
    """Probability that the target keeps what was proposed, at each position that it reached.

    Not whether it did: the probability varies less. Only the first node of siblings counts.
    """
    proposal = observation.proposal
    agreements = []
    for depth, p in enumerate(observation.targets):
        node = ROOT if depth == 0 else observation.accepted_path[depth - 1]
        children = proposal.children(node)
        if children:
            token, q = proposal.tokens[children[0]], proposal.distributions[children[0]]
            agreements.append(agreement(MemberPrediction("", node, token, q, 1.0), p))
    return agreements


class Best(GroupKind):
    name = "best"
    usage = "best(D,D)"
    label = "Best"
    description = "The one the target agreed with most of late; the others are tried now and then"

    def combine(self, members: Sequence[Drafter], build: BuildContext) -> Drafter:
        return BestDrafter(members)
