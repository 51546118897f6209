"""A small decoder over features of the target whose proposals are trees (EAGLE-2, 2406.16858)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import DrafterError
from engine.drafters.base import DraftRound
from engine.drafters.features.decoder import Decoder
from engine.drafters.features.drafter import DrafterLabel, FeatureDrafter
from engine.drafters.trees.expansion import grow
from engine.llama.context import Context
from engine.maths.proposal import ROOT, Proposal

Array = NDArray[np.float32]


class BranchingDecoder(Decoder, Protocol):
    """See engine.drafters.features.eagle_layer and engine.llama.draft_layer."""

    def branch(
        self, parents: Sequence[int], tokens: Sequence[int], states: Array
    ) -> tuple[Array, Array]: ...


class FeatureTree(FeatureDrafter):
    """nodes: of its proposals at most. In ensembles that go token by token it drafts a chain."""

    def __init__(
        self,
        label: DrafterLabel,
        layers: Sequence[int],
        open_decoder: Callable[[Context], BranchingDecoder],
        ends_generation: Callable[[int], bool],
        on_close: Callable[[], None],
        nodes: int,
    ) -> None:
        self._branching: BranchingDecoder | None = None

        def open_branching(target: Context) -> Decoder:
            self._branching = open_decoder(target)
            return self._branching

        super().__init__(label, layers, open_branching, ends_generation, on_close)
        self._nodes = nodes
        self._branch_states: list[Array] = []

    @property
    def max_leaves(self) -> int:  # type: ignore[override]
        return self._nodes

    def propose(self, round_: DraftRound) -> Proposal:
        return grow(self, round_, self._nodes)

    def first_row(self) -> Array:
        if self.peek() is None:
            raise DrafterError("it has nothing to say about this text")
        self._branch_states = []
        return self._current_row()

    def branch(self, parents: Sequence[int], tokens: Sequence[int]) -> Sequence[Array]:
        if self._branching is None:
            raise DrafterError("it is not connected to the target")
        above = [
            self._state if parent == ROOT else self._branch_states[parent] for parent in parents
        ]
        rows, states = self._branching.branch(parents, tokens, np.stack(above))
        self._branch_states.extend(states)
        return list(rows)

    def ends(self, token: int) -> bool:
        return self._ends_generation(token)
