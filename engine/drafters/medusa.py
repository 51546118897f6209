"""Medusa heads (Cai et al. 2024, arXiv 2401.10774): all next tokens from one hidden state.

The heads read the hidden state of the row that decided the context's last token, which the
target's own pass has computed already. Proposals are point masses, so every rule stays exact; the
paper's "typical acceptance" is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.drafters.static_tree import Choice, chain_choices, leaf_count, parents_of
from engine.proposal import EMPTY_PROPOSAL, Proposal
from engine.sampling import confidence


class HeadGraph(Protocol):
    """What the drafter asks of the heads; see engine.drafters.medusa_graph."""

    @property
    def count(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def run(self, hidden: NDArray[np.float32]) -> None: ...

    def logits(self, head: int) -> NDArray[np.float32]: ...

    def close(self) -> None: ...


class MedusaDrafter:
    """The first round of a reply proposes nothing: no pass has shown a hidden state yet.

    token_ids: target id of each row of the heads, None when row i is token i. choices: shape of
    the tree, None for a chain.
    """

    needs: TargetNeeds = "final hidden state"

    def __init__(
        self,
        name: str,
        graph: HeadGraph,
        token_ids: NDArray[np.int64] | None = None,
        choices: Sequence[Choice] | None = None,
    ) -> None:
        self.name = name
        self._graph = graph
        self._token_ids = token_ids
        self._choices = tuple(choices or chain_choices(graph.count))
        self._hidden: NDArray[np.float32] | None = None
        self.memory_bytes = graph.bytes
        self.max_leaves = leaf_count(self._choices)
        shape = f"a tree of {len(self._choices)}" if self.max_leaves > 1 else "a chain"
        self.description = f"{graph.count} Medusa heads, {shape}"

    def begin(self, prompt: Sequence[int]) -> None:
        self._hidden = None

    def propose(self, round_: DraftRound) -> Proposal:
        if self._hidden is None or not round_.policy.may_start(self.name):
            return EMPTY_PROPOSAL
        self._graph.run(self._hidden)
        ranked: list[NDArray[np.int64]] = []
        for depth in range(1, min(round_.max_depth, self._graph.count) + 1):
            width = max((c[-1] + 1 for c in self._choices if len(c) == depth), default=0)
            if width == 0:
                break
            row = self._graph.logits(depth - 1)
            if not round_.policy.should_continue(self.name, depth, confidence(row)):
                break
            ranked.append(self._best(row, width))
        return self._proposal(ranked)

    def observe(self, observation: Observation) -> None:
        if observation.features is not None:
            self._hidden = observation.features[-1]

    def close(self) -> None:
        self._graph.close()

    def _best(self, row: NDArray[np.float32], count: int) -> NDArray[np.int64]:
        """Target ids of the `count` likeliest tokens, the likeliest first."""
        count = min(count, len(row))
        if count == 1:
            places = np.array([np.argmax(row)])
        else:
            places = np.argpartition(row, -count)[-count:]
            places = places[np.lexsort((places, -row[places]))]
        return places if self._token_ids is None else self._token_ids[places]

    def _proposal(self, ranked: Sequence[NDArray[np.int64]]) -> Proposal:
        chosen = [
            choice
            for choice in self._choices
            if len(choice) <= len(ranked) and choice[-1] < len(ranked[len(choice) - 1])
        ]
        tokens = tuple(int(ranked[len(choice) - 1][choice[-1]]) for choice in chosen)
        count = len(tokens)
        return Proposal(tokens, parents_of(chosen), (self.name,) * count, (None,) * count)
