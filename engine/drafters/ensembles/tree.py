"""tree(D): the draft of D, with its next-best tokens beside it where they are likely enough.

Which siblings are worth a place is decided by joint probability over the whole draft, as EAGLE-2
does (Li et al. 2024, 2406.16858); they are leaves, so they cost no draft step. Greedy drafts get
point masses; sampled ones get a second draw without replacement (Chen et al. 2024, 2402.12374).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from engine.data.errors import BadOptionError
from engine.data.rounds import CopySource
from engine.drafters.base import Drafter, DraftRound, StepDrafter
from engine.drafters.ensembles.group import Group
from engine.drafters.ensembles.group_kind import GroupKind
from engine.drafters.expression import DrafterExpression
from engine.drafters.stepping import choose
from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext

MOST_SIBLINGS = 12
_PER_NODE = 3
_LOWEST_PROBABILITY = 0.02
"""Of being on the path: less likely siblings are left out even where a pass costs nothing more."""


@dataclass(frozen=True, slots=True)
class _Sibling:
    """Another token below `parent`. probability: of being on the path, as the drafter sees it."""

    probability: float
    parent: int
    token: int
    q: Distribution | None


class TreeDrafter(Group):
    kind = "tree"

    def __init__(self, member: StepDrafter) -> None:
        super().__init__([member])
        self._member = member
        self.description = f"{member.description}, with its next-best tokens beside"

    @property
    def max_leaves(self) -> int:
        return 1 + MOST_SIBLINGS

    def propose(self, round_: DraftRound) -> Proposal:
        self.open_round(round_)
        member, policy = self._member, round_.policy
        asked = replace(round_, copied=partial(self._copied, round_))
        if not member.start(asked) or not policy.may_start():
            return EMPTY_PROPOSAL
        tokens: list[int] = []
        distributions: list[Distribution | None] = []
        siblings: list[_Sibling] = []
        path_probability = 1.0
        for depth in range(1, min(round_.max_depth, round_.max_nodes) + 1):
            if not policy.may_step(depth):
                break
            confidence = member.peek()
            if confidence is None:
                break
            if not policy.should_continue(depth, confidence):
                break
            token, q = choose(round_, member.distribution(), len(tokens))
            parent = len(tokens) - 1
            if q is None:
                siblings += self._next_best(token, parent, path_probability)
            else:
                left = path_probability * (1.0 - confidence)
                rows = 1 + depth + len(siblings)
                if self._has_room(len(siblings), left) and policy.pays_to_add(left, rows):
                    siblings += _second_draw(round_, q, token, parent, left)
            tokens.append(token)
            distributions.append(q)
            member.advance(token)
            path_probability *= confidence
        return self._tree(round_, tokens, distributions, siblings)

    def _copied(
        self, round_: DraftRound, drafter: str, path: tuple[int, ...], source: CopySource
    ) -> None:
        """What its member proposes is proposed under the tree's name."""
        if drafter == self._member.name:
            round_.copied(self.name, path, source)

    def _next_best(self, token: int, parent: int, path_probability: float) -> list[_Sibling]:
        return [
            _Sibling(path_probability * probability, parent, other, None)
            for other, probability in self._member.alternatives(_PER_NODE)
            if other != token
        ]

    @staticmethod
    def _has_room(siblings: int, probability: float) -> bool:
        return siblings < MOST_SIBLINGS and probability >= _LOWEST_PROBABILITY

    def _tree(
        self,
        round_: DraftRound,
        tokens: Sequence[int],
        distributions: Sequence[Distribution | None],
        siblings: Sequence[_Sibling],
    ) -> Proposal:
        """The trunk first, so that a limit on the nodes cuts siblings, drawn ones in order."""
        kept = [sibling for sibling in siblings if sibling.q is not None]
        free = [sibling for sibling in siblings if sibling.q is None]
        for sibling in sorted(free, key=lambda one: -one.probability):
            rows = 1 + len(tokens) + len(kept)
            if not self._has_room(len(kept), sibling.probability) or rows > round_.max_nodes:
                break
            if not round_.policy.pays_to_add(sibling.probability, rows):
                break
            kept.append(sibling)
        count = len(tokens)
        return Proposal(
            (*tokens, *(sibling.token for sibling in kept)),
            (*range(ROOT, count - 1), *(sibling.parent for sibling in kept)),
            (self._member.name,) * (count + len(kept)),
            (*distributions, *(sibling.q for sibling in kept)),
            tuple(self._member.predictions()),
        )


def _second_draw(
    round_: DraftRound, q: Distribution, first: int, parent: int, probability: float
) -> list[_Sibling]:
    """Another token of the same q; the decision to draw it looked at nothing drawn from it."""
    others = q.ids != first
    mass = q.probabilities[others]
    left = Distribution(q.ids[others], mass / mass.sum())
    token = round_.stream.draw(left, len(round_.context) + parent + 1)
    return [_Sibling(probability, parent, token, q)]


class Tree(GroupKind):
    name = "tree"
    usage = "tree(D)"
    label = "Tree"
    description = "A draft with its next-best tokens beside it"
    branches = True

    def check(self, expression: DrafterExpression) -> None:
        if len(expression.members) != 1:
            raise BadOptionError("tree(...) takes one drafter")

    def combine(self, members: Sequence[Drafter], build: BuildContext) -> Drafter:
        return TreeDrafter(self.steppers(members)[0])
