"""EAGLE's layer as a feature drafter's decoder: which entry lies in which cell of its cache.

Entry i of the text lies in cell i. Nodes of a draft that branches come after the text, in the order
in which they were evaluated, and see the text and their own ancestors (2406.16858).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import DrafterError
from engine.drafters.features.eagle_graph import FED_ROWS, LEVEL_ROWS, EagleGraph, Entries
from engine.drafters.trees.expansion import MOST_EVALUATED
from engine.llama.abort import PassAborted
from engine.maths.proposal import ROOT

SPARE_CELLS = MOST_EVALUATED + 1
"""Beyond the context: for the nodes of a tree, and one that nothing is read from."""

Array = NDArray[np.float32]


class EagleDecoder:
    """length: entries of the text in its cache. aborted: whether a reply was stopped."""

    def __init__(self, graph: EagleGraph, aborted: Callable[[], bool]) -> None:
        self.hidden_size = graph.shape.hidden
        self.length = 0
        self._graph = graph
        self._aborted = aborted
        self._ancestors: list[tuple[int, ...]] = []  # cells of a node and of those above it

    def encode(self, features: Array) -> Array:
        return features

    def feed(self, tokens: Sequence[int], states: Array) -> None:
        """Appends entries, at most FED_ROWS."""
        if len(tokens) > FED_ROWS:
            raise ValueError(f"feed takes {FED_ROWS} entries at a time")
        positions = range(self.length, self.length + len(tokens))
        self._run_allowed()
        self._graph.feed(
            Entries(tokens, states, positions, positions, np.zeros((len(tokens), 0), np.bool_))
        )
        self.length += len(tokens)

    def draft(self, token: int, state: Array) -> tuple[Array, Array]:
        """Appends one entry: logits [vocabulary] after it, and the next entry's state."""
        self._ancestors.clear()
        position = self.length
        self._run_allowed()
        visible = np.ones((1, position + 1), np.bool_)
        rows, states = self._graph.draft(
            Entries([token], state[None, :], [position], [position], visible)
        )
        self.length += 1
        return rows[0], states[0]

    def branch(
        self, parents: Sequence[int], tokens: Sequence[int], states: Array
    ) -> tuple[Array, Array]:
        """Nodes below the text's last entry: logits [nodes, vocabulary], states [nodes, hidden].

        parents: ROOT or the number of an earlier node since the last draft. Any other call but
        this one forgets the nodes.
        """
        if len(self._ancestors) + len(tokens) > MOST_EVALUATED:
            raise DrafterError("its tree grew beyond its cache")
        found = []
        for start in range(0, len(tokens), LEVEL_ROWS):
            part = slice(start, start + LEVEL_ROWS)
            found.append(self._level(parents[part], tokens[part], states[part]))
        return np.concatenate([rows for rows, _ in found]), np.concatenate([s for _, s in found])

    def _level(
        self, parents: Sequence[int], tokens: Sequence[int], states: Array
    ) -> tuple[Array, Array]:
        first = self.length + len(self._ancestors)
        cells = range(first, first + len(tokens))
        paths = [
            (*(self._ancestors[parent] if parent != ROOT else ()), cell)
            for parent, cell in zip(parents, cells, strict=True)
        ]
        visible = np.zeros((len(tokens), cells.stop), np.bool_)
        visible[:, : self.length] = True
        for row, path in enumerate(paths):
            visible[row, list(path)] = True
        positions = [self.length - 1 + len(path) for path in paths]
        self._run_allowed()
        result = self._graph.draft(Entries(tokens, states, positions, cells, visible))
        self._ancestors.extend(paths)
        return result

    def _run_allowed(self) -> None:
        if self._aborted():
            raise PassAborted

    def truncate(self, length: int) -> None:
        self._ancestors.clear()
        self.length = min(self.length, length)

    def close(self) -> None:
        self._graph.close()
