"""union(A,B,...): one tree of what all members propose, verified in one pass.

Nodes that were not drawn at random are merged where members agree. A node that was drawn stays
apart even if another member has the same token there: its q has to be subtracted once for each
draw (see engine/maths/acceptance.py; SpecInfer, Miao et al. 2023, 2305.09781).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.control.acceptance_estimator import AcceptanceEstimator
from engine.data.draft_policy import DraftPolicy
from engine.drafters.base import Drafter, DraftRound, Observation, Preparing
from engine.drafters.ensembles.group import Group
from engine.drafters.ensembles.group_kind import GroupKind
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, MemberPrediction, Proposal

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


class UnionDrafter(Group):
    kind = "union"
    description = "one tree of what all its members propose"

    def __init__(self, members: Sequence[Drafter]) -> None:
        super().__init__(members)
        self._estimators = {member.name: AcceptanceEstimator() for member in members}
        self._parts: list[_Part] = []

    @property
    def max_leaves(self) -> int:
        return sum(member.max_leaves for member in self.members)

    def prepare(self, policy: DraftPolicy) -> None:
        for member in self.present():
            if isinstance(member, Preparing):
                with self.guarded(member):
                    member.prepare(_MemberPolicy(policy, self._estimators[member.name]))

    def propose(self, round_: DraftRound) -> Proposal:
        self.open_round(round_)
        self._parts = []
        if not round_.policy.may_start():
            return EMPTY_PROPOSAL
        tree = EMPTY_PROPOSAL
        for member in self.present():
            estimator = self._estimators[member.name]
            policy = _MemberPolicy(round_.policy, estimator, 1 + len(tree))
            with self.guarded(member):
                proposal = member.propose(replace(round_, policy=policy))
                self._parts.append(_Part(member, policy, proposal))
            tree = merge(
                [part.member.name for part in self._parts],
                [part.proposal for part in self._parts],
                [part.policy.confidences for part in self._parts],
            )
        return tree

    def observe(self, observation: Observation) -> None:
        """Every member sees its own proposal, as if the target had verified that one alone."""
        parts = {part.member.name: part for part in self._parts}
        self._parts = []
        for member in self.present():
            part = parts.get(member.name)
            own = observation if part is None else _own_view(part.proposal, observation)
            if part is not None:
                part.policy.learn(len(own.accepted_path))
            with self.guarded(member):
                member.observe(own)


@dataclass(slots=True)
class _MemberPolicy:
    """What a member asks, as a node of the common tree. rows: of the pass before it."""

    union: DraftPolicy
    estimator: AcceptanceEstimator
    rows: int = 1
    confidences: list[float] = field(default_factory=list)
    _path_probability: float = 1.0

    def of(self, drafter: str) -> _MemberPolicy:
        """Whoever drafts, it is for the union."""
        return self

    def may_catch_up(self, tokens: int) -> bool:
        return self.union.may_catch_up(tokens)

    def may_start(self) -> bool:
        return True

    def may_step(self, depth: int) -> bool:
        """Where not even a token that is certain would pay below this path, no step is needed."""
        return depth == 1 or self.union.pays_to_add(self._path_probability, self.rows + depth - 1)

    def should_continue(self, depth: int, confidence: float) -> bool:
        probability = self._path_probability * self.estimator.estimate(confidence)
        if not self.union.pays_to_add(probability, self.rows + depth - 1):
            return False
        self._path_probability = probability
        self.confidences.append(confidence)
        return True

    def pays_to_add(self, probability: float, rows: int) -> bool:
        return self.union.pays_to_add(probability, self.rows + rows - 1)

    def expected_saving(self, confidence: float | None = None) -> float:
        return self.union.expected_saving()

    def learn(self, accepted: int) -> None:
        for depth, confidence in enumerate(self.confidences[: accepted + 1]):
            self.estimator.learn(confidence, depth < accepted)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one member added to the tree."""

    member: Drafter
    policy: _MemberPolicy
    proposal: Proposal


def merge(
    members: Sequence[str],
    proposals: Sequence[Proposal],
    confidences: Sequence[Sequence[float]],
) -> Proposal:
    """One tree, level by level, so that a limit on its nodes cuts the deepest ones.

    confidences: of each member, by depth. The order depends on the shapes of the proposals alone,
    never on what was drawn. Every first choice becomes a prediction of its member as well, so that
    a merged node counts for all that proposed it.
    """
    order = sorted(
        (
            (depth, owner, node)
            for owner, proposal in enumerate(proposals)
            for node, depth in enumerate(proposal.depths)
        )
    )
    tree = _Tree()
    nodes: dict[tuple[int, int], int] = {}  # (owner, node) to the node of the tree
    for _, owner, node in order:
        parent = proposals[owner].parents[node]
        above = ROOT if parent == ROOT else nodes[owner, parent]
        nodes[owner, node] = tree.add(above, proposals[owner], node)
    predictions: list[MemberPrediction] = []
    for owner, proposal in enumerate(proposals):
        known = {node: nodes[owner, node] for node in range(len(proposal))} | {ROOT: ROOT}
        predictions += _member_predictions(members[owner], proposal, known, confidences[owner])
    return tree.proposal(predictions)


class _Tree:
    def __init__(self) -> None:
        self._parents: list[int] = []
        self._sources: list[tuple[Proposal, int]] = []
        self._chosen: dict[tuple[int, int], int] = {}  # (parent, token) of nodes not drawn

    def add(self, parent: int, proposal: Proposal, node: int) -> int:
        is_drawn = proposal.distributions[node] is not None
        key = (parent, proposal.tokens[node])
        if not is_drawn and key in self._chosen:
            return self._chosen[key]
        self._parents.append(parent)
        self._sources.append((proposal, node))
        new = len(self._parents) - 1
        if not is_drawn:
            self._chosen[key] = new
        return new

    def proposal(self, predictions: Sequence[MemberPrediction]) -> Proposal:
        return Proposal(
            tuple(proposal.tokens[node] for proposal, node in self._sources),
            tuple(self._parents),
            tuple(proposal.drafters[node] for proposal, node in self._sources),
            tuple(proposal.distributions[node] for proposal, node in self._sources),
            tuple(predictions),
        )


def _member_predictions(
    member: str, proposal: Proposal, nodes: Mapping[int, int], confidences: Sequence[float]
) -> list[MemberPrediction]:
    """The member's first choice below each of its nodes, and the predictions it had itself."""
    predictions = [
        replace(prediction, parent=nodes[prediction.parent]) for prediction in proposal.predictions
    ]
    depths = proposal.depths
    seen: set[int] = set()
    for node, parent in enumerate(proposal.parents):
        if parent not in seen:
            seen.add(parent)
            token, q = proposal.tokens[node], proposal.distributions[node]
            depth = depths[node]
            sure = confidences[depth - 1] if depth <= len(confidences) else 1.0
            predictions.append(MemberPrediction(member, nodes[parent], token, q, sure))
    return predictions


def _own_view(proposal: Proposal, observation: Observation) -> Observation:
    """The same outcome for a member's own proposal: how far the text went along it."""
    path: list[int] = []
    node = ROOT
    for token in observation.emitted:
        children = proposal.children(node)
        node = next((child for child in children if proposal.tokens[child] == token), ROOT)
        if node == ROOT:
            break
        path.append(node)
    return Observation(
        proposal,
        tuple(path),
        observation.emitted,
        observation.features,
        observation.targets[: len(path) + 1],
        observation.rankings,
    )


class Union(GroupKind):
    name = "union"
    usage = "union(D,D)"
    label = "Union"
    description = "Everything they propose as one tree, verified in one pass"
    branches = True

    def combine(self, members: Sequence[Drafter], build: BuildContext) -> Drafter:
        return UnionDrafter(members)
