"""Trees that grow where the draft is likely to be right (EAGLE-2, Li et al. 2024, 2406.16858, 4.1).

Level by level the likeliest nodes are evaluated, by the joint probability of their paths; of all
nodes seen, the likeliest are proposed. Which nodes those are follows from the text alone, so they
are point masses and every rule of verification stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.data.draft_policy import DraftPolicy
from engine.drafters.base import DraftRound
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from engine.maths.ranking import likeliest

BEAM = 8
"""Nodes evaluated a level, and children looked at a node."""

MOST_EVALUATED = 128
"""Nodes of one tree whose children are looked at."""

Row = NDArray[np.float32]


class Branching(Protocol):
    """A drafter that can go on from several prefixes of one draft."""

    @property
    def name(self) -> str: ...

    def start(self, round_: DraftRound) -> bool: ...

    def first_row(self) -> Row:
        """Logits [vocabulary] after the context."""
        ...

    def branch(self, parents: Sequence[int], tokens: Sequence[int]) -> Sequence[Row]:
        """Logits after each new node, at most BEAM. parents: ROOT, or numbers of the last ones.

        Nodes are numbered in the order in which they came.
        """
        ...

    def ends(self, token: int) -> bool:
        """Whether nothing follows this token."""
        ...


@dataclass(frozen=True, slots=True)
class _Node:
    """parent: index among all nodes seen. probability: of the whole path, to the drafter."""

    token: int
    parent: int
    probability: float


def grow(drafter: Branching, round_: DraftRound, nodes: int) -> Proposal:
    """At most `nodes` nodes, the likeliest first, each after its parent."""
    policy = round_.policy
    limit = min(nodes, round_.max_nodes)
    if not drafter.start(round_) or not policy.may_start():
        return EMPTY_PROPOSAL
    if not policy.may_step(1):
        return EMPTY_PROPOSAL
    seen: list[_Node] = []
    evaluated: dict[int, int] = {}
    level = _children(drafter.first_row(), ROOT, 1.0)
    best_above = 1.0
    for depth in range(1, round_.max_depth + 1):
        best = max((node.probability for node in level), default=0.0)
        if best <= 0.0 or not policy.should_continue(depth, best / best_above):
            break
        best_above = best
        first = len(seen)
        seen.extend(level)
        kept = _likeliest_nodes(seen, limit, policy)
        beam = [index for index in kept if index >= first and not drafter.ends(seen[index].token)]
        beam = beam[: min(BEAM, MOST_EVALUATED - len(evaluated))]
        if depth == round_.max_depth or not beam or not policy.may_step(depth + 1):
            break
        rows = drafter.branch(
            [evaluated.get(seen[index].parent, ROOT) for index in beam],
            [seen[index].token for index in beam],
        )
        level = []
        for index, row in zip(beam, rows, strict=True):
            evaluated[index] = len(evaluated)
            level.extend(_children(row, index, seen[index].probability))
    return _proposal(seen, _likeliest_nodes(seen, limit, policy), drafter.name)


def _children(row: Row, parent: int, probability: float) -> list[_Node]:
    return [_Node(token, parent, probability * p) for token, p in likeliest(row, BEAM)]


def _likeliest_nodes(seen: Sequence[_Node], limit: int, policy: DraftPolicy) -> list[int]:
    """Indices of the nodes worth proposing, the likeliest first.

    A child is never likelier than its parent and was seen after it, so parents come first.
    """
    order = sorted(range(len(seen)), key=lambda index: (-seen[index].probability, index))
    for count, index in enumerate(order[:limit]):
        if not policy.pays_to_add(seen[index].probability, 1 + count):
            return order[:count]
    return order[:limit]


def _proposal(seen: Sequence[_Node], kept: Sequence[int], drafter: str) -> Proposal:
    nodes = {index: node for node, index in enumerate(kept)} | {ROOT: ROOT}
    count = len(kept)
    return Proposal(
        tuple(seen[index].token for index in kept),
        tuple(nodes[seen[index].parent] for index in kept),
        (drafter,) * count,
        (None,) * count,
    )
