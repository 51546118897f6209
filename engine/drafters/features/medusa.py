"""Medusa heads (Cai et al. 2024, arXiv 2401.10774): all next tokens from one hidden state.

The heads read the hidden state of the row that decided the context's last token, which the
target's own pass has computed already. Trees are made of point masses and chains carry the q they
were drawn from, so every rule stays exact; the paper's "typical acceptance" is an option of the
request (engine.maths.typical).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.drafters.stepping import draft_chain
from engine.drafters.trees.static_tree import Choice, leaf_count, parents_of
from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, MemberPrediction, Proposal
from engine.maths.ranking import likeliest
from engine.maths.sampling import confidence


class HeadGraph(Protocol):
    """What the drafter asks of the heads; see engine.drafters.features.medusa_graph."""

    @property
    def count(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def run(self, hidden: NDArray[np.float32]) -> None: ...

    def logits(self, head: int) -> NDArray[np.float32]: ...

    def close(self) -> None: ...


class MedusaDrafter:
    """The first round of a reply proposes nothing: no pass has shown a hidden state yet.

    vocabulary: of the target, in tokens. token_ids: target id of each row of the heads, None when
    row i is token i. choices: shape of a tree, which is made of point masses; None for a chain,
    which may be drawn at random like any other draft.
    """

    needs: TargetNeeds = "final hidden state"

    def __init__(
        self,
        name: str,
        graph: HeadGraph,
        vocabulary: int,
        token_ids: NDArray[np.int64] | None = None,
        choices: Sequence[Choice] = (),
    ) -> None:
        self.name = name
        self._graph = graph
        self._vocabulary = vocabulary
        self._token_ids = token_ids
        self._choices = tuple(choices)
        self._hidden: NDArray[np.float32] | None = None
        self._round: DraftRound | None = None
        self._drafted: list[int] = []
        self._rows: list[NDArray[np.float32]] = []
        self.memory_bytes = graph.bytes
        self.max_leaves = leaf_count(self._choices) if choices else 1
        shape = f"a tree of {len(self._choices)}" if choices else "a chain"
        self.description = f"{graph.count} Medusa heads, {shape}"

    def begin(self, prompt: Sequence[int]) -> None:
        self._hidden = None

    def propose(self, round_: DraftRound) -> Proposal:
        return self._tree(round_) if self._choices else draft_chain(self, round_)

    def observe(self, observation: Observation) -> None:
        if observation.features is not None:
            self._hidden = observation.features[-1]

    def close(self) -> None:
        self._graph.close()

    # Step by step: head i does not look at the tokens before its own

    def start(self, round_: DraftRound) -> bool:
        self._round = round_
        self._drafted = []
        self._rows = []
        return self._hidden is not None

    def peek(self) -> float | None:
        depth = len(self._drafted)
        if self._hidden is None or depth == self._graph.count:
            return None
        if not self._rows:
            self._graph.run(self._hidden)
        if depth == len(self._rows):
            self._rows.append(self._full(self._graph.logits(depth)))
        return confidence(self._rows[depth])

    def distribution(self) -> Distribution:
        round_ = self._round
        if round_ is None:
            raise ValueError("distribution before start")
        history = (*round_.sampler.recent(round_.context), *self._drafted)
        return round_.sampler.distribution(self._rows[len(self._drafted)], history)

    def advance(self, token: int) -> None:
        self._drafted.append(token)

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        depth = len(self._drafted)
        return likeliest(self._rows[depth], count) if depth < len(self._rows) else ()

    def predictions(self) -> Sequence[MemberPrediction]:
        return ()

    def _full(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """A head's row over target ids; -inf for tokens it does not know."""
        if self._token_ids is None:
            return row
        full = np.full(self._vocabulary, -np.inf, np.float32)
        full[self._token_ids] = row
        return full

    # A tree of fixed shape

    def _tree(self, round_: DraftRound) -> Proposal:
        if self._hidden is None or not round_.policy.may_start():
            return EMPTY_PROPOSAL
        self._graph.run(self._hidden)
        ranked: list[NDArray[np.int64]] = []
        for depth in range(1, min(round_.max_depth, self._graph.count) + 1):
            width = max((c[-1] + 1 for c in self._choices if len(c) == depth), default=0)
            if width == 0:
                break
            row = self._graph.logits(depth - 1)
            if not round_.policy.should_continue(depth, confidence(row)):
                break
            ranked.append(self._best(row, width))
        return self._proposal(ranked)

    def _best(self, row: NDArray[np.float32], count: int) -> NDArray[np.int64]:
        """Target ids of the `count` likeliest tokens, the likeliest first."""
        count = min(count, len(row))
        indices = np.argpartition(row, len(row) - count)[len(row) - count :]
        indices = indices[np.lexsort((indices, -row[indices]))]
        return indices if self._token_ids is None else self._token_ids[indices]

    def _proposal(self, ranked: Sequence[NDArray[np.int64]]) -> Proposal:
        chosen = [
            choice
            for choice in self._choices
            if len(choice) <= len(ranked) and choice[-1] < len(ranked[len(choice) - 1])
        ]
        tokens = tuple(int(ranked[len(choice) - 1][choice[-1]]) for choice in chosen)
        count = len(tokens)
        return Proposal(tokens, parents_of(chosen), (self.name,) * count, (None,) * count)
