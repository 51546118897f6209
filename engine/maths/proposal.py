"""The new tokens of one round: always a tree, parents first (a chain is a tree)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.maths.distribution import Distribution

ROOT = -1
"""Parent index of the first-level nodes: the last token of the context."""


@dataclass(frozen=True, slots=True)
class MemberPrediction:
    """What one member of an ensemble would have proposed below node `parent` of the proposal.

    q: the distribution it would have drawn from, None for a point mass at `token`. confidence: its
    probability, in 0..1, that it is right.
    """

    drafter: str
    parent: int
    token: int
    q: Distribution | None
    confidence: float


@dataclass(frozen=True, slots=True)
class Proposal:
    """All four tuples have one entry per node; parents[i] < i, ROOT for the first level.

    distributions: the distribution q the token was really drawn from, None where the token was
    chosen deterministically (a point mass). Siblings that carry q were drawn from that one q,
    without replacement, in node order. predictions: what the members of an ensemble would have
    proposed; shown and learned from, never verified.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    drafters: tuple[str, ...] = ()
    distributions: tuple[Distribution | None, ...] = ()
    predictions: tuple[MemberPrediction, ...] = ()

    def __post_init__(self) -> None:
        sizes = {len(self.tokens), len(self.parents), len(self.drafters), len(self.distributions)}
        if len(sizes) != 1:
            raise ValueError("a proposal needs one parent, drafter and distribution per token")
        if any(not ROOT <= parent < index for index, parent in enumerate(self.parents)):
            raise ValueError("parents must come before their children")

    @staticmethod
    def chain(
        tokens: Sequence[int],
        drafter: str,
        distributions: Sequence[Distribution | None] | None = None,
        predictions: Sequence[MemberPrediction] = (),
    ) -> Proposal:
        count = len(tokens)
        return Proposal(
            tuple(tokens),
            tuple(range(-1, count - 1)),
            (drafter,) * count,
            tuple(distributions) if distributions is not None else (None,) * count,
            tuple(predictions),
        )

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        return all(parent == index - 1 for index, parent in enumerate(self.parents))

    @property
    def is_sampled(self) -> bool:
        return any(q is not None for q in self.distributions)

    @property
    def depths(self) -> tuple[int, ...]:
        """Depth of every node, 1 for the first level."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)

    def children(self, node: int) -> tuple[int, ...]:
        return tuple(index for index, parent in enumerate(self.parents) if parent == node)

    def path(self, node: int) -> tuple[int, ...]:
        """Node indices from the first level down to `node`, inclusive; empty for ROOT."""
        reversed_path = []
        while node != ROOT:
            reversed_path.append(node)
            node = self.parents[node]
        return tuple(reversed(reversed_path))

    def leaves(self) -> tuple[int, ...]:
        inner = set(self.parents)
        return tuple(index for index in range(len(self.tokens)) if index not in inner)

    def pruned(self, max_depth: int) -> Proposal:
        """The same tree without the nodes deeper than max_depth."""
        depths = self.depths
        return self._only([index for index, depth in enumerate(depths) if depth <= max_depth])

    def first_nodes(self, count: int) -> Proposal:
        """The same tree without the nodes after the first `count`.

        A node goes because of its position, never because of its token: every rule stays exact.
        """
        return self._only(range(min(count, len(self.tokens))))

    def lengthened(self, count: int) -> Proposal:
        """The same tree with its last token `count` times more, each below the one before."""
        nodes = len(self.tokens)
        return Proposal(
            (*self.tokens, *self.tokens[-1:] * count),
            (*self.parents, *range(nodes - 1, nodes - 1 + count)),
            (*self.drafters, *self.drafters[-1:] * count),
            (*self.distributions, *(None,) * count),
            self.predictions,
        )

    def ended_at(self, is_end: Callable[[int], bool]) -> Proposal:
        """The same tree without the nodes below a token that ends the reply.

        Dropping what comes after a drawn token, but never that token, keeps every rule exact.
        """
        below_end: list[bool] = []
        for parent in self.parents:
            below_end.append(parent != ROOT and (below_end[parent] or is_end(self.tokens[parent])))
        return self._only([index for index, below in enumerate(below_end) if not below])

    def _only(self, kept: Sequence[int]) -> Proposal:
        if len(kept) == len(self.tokens):
            return self
        new_index = {old: new for new, old in enumerate(kept)} | {ROOT: ROOT}
        return Proposal(
            tuple(self.tokens[index] for index in kept),
            tuple(new_index[self.parents[index]] for index in kept),
            tuple(self.drafters[index] for index in kept),
            tuple(self.distributions[index] for index in kept),
            tuple(
                replace(prediction, parent=new_index[prediction.parent])
                for prediction in self.predictions
                if prediction.parent in new_index
            ),
        )


EMPTY_PROPOSAL = Proposal()
