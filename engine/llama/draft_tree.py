"""An EAGLE-3 drafter that goes on from several prefixes of one draft: a sequence for each node.

As in engine.llama.tree, a node sees the cells of its own sequence; here they come a level at a
time, and only the last level's sequences are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from engine.llama.abort import AbortFlag
from engine.llama.context import Context
from engine.llama.draft_layer import Eagle3Context, address_of, copied
from engine.llama.model import Model
from engine.maths.proposal import ROOT

Array = NDArray[np.float32]


class Eagle3Tree(Eagle3Context):
    """width: nodes of one level at most. nodes: of one tree, for which its cache has room."""

    def __init__(
        self,
        model: Model,
        target: Context,
        threads: int,
        abort: AbortFlag,
        width: int,
        nodes: int,
    ) -> None:
        self._width = width
        self._nodes = nodes
        self._level: dict[int, int] = {}  # sequence of every node of the last level
        self._depth = 0
        self._count = 0
        super().__init__(model, target, threads, abort)

    def _params(self, target: Context, threads: int, abort: AbortFlag) -> Any:
        params = super()._params(target, threads, abort)
        params.n_seq_max = 1 + 2 * self._width
        params.kv_unified = True
        params.n_ctx += self._nodes
        return params

    def draft(self, token: int, state: Array) -> tuple[Array, Array]:
        self._forget()
        return super().draft(token, state)

    def feed(self, tokens: Sequence[int], states: Array) -> None:
        self._forget()
        super().feed(tokens, states)

    def truncate(self, length: int) -> None:
        self._forget()
        super().truncate(length)

    def branch(
        self, parents: Sequence[int], tokens: Sequence[int], states: Array
    ) -> tuple[Array, Array]:
        """The next level: logits [nodes, vocabulary] and states [nodes, hidden], copies.

        parents: ROOT, or the number of a node of the level before; nodes are numbered from the
        last draft on. Any other call forgets them.
        """
        if len(tokens) > self._width or self._count + len(tokens) > self._nodes:
            raise ValueError("more nodes than this drafter has room for")
        sequences = self._next_level(parents)
        rows = np.ascontiguousarray(states, np.float32)
        native.llama_batch_ext_clear(self._batch)
        for sequence, token, row in zip(sequences, tokens, rows, strict=True):
            self._add(sequence, self.length + self._depth, token, row, output=True)
        self._decode()
        self._depth += 1
        self._count += len(tokens)
        shape = (len(tokens), self.vocabulary_size)
        logits = copied(address_of(native.llama_get_logits(self.handle)), shape)
        found = [
            copied(self._state(self.handle, index), (self.hidden_size,))
            for index in range(len(tokens))
        ]
        return logits, np.stack(found)

    def _next_level(self, parents: Sequence[int]) -> range:
        """Sequences for new nodes, each with its parent's path; those of the parents go."""
        first = 1 + (self._depth % 2) * self._width
        sequences = range(first, first + len(parents))
        for parent, sequence in zip(parents, sequences, strict=True):
            above = 0 if parent == ROOT else self._level[parent]
            native.llama_memory_seq_cp(self._memory, above, sequence, -1, -1)
        for sequence in self._level.values():
            native.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        self._level = dict(enumerate(sequences, start=self._count))
        return sequences

    def _forget(self) -> None:
        if self._level:
            native.llama_memory_seq_keep(self._memory, 0)
            self._level = {}
        self._depth = self._count = 0
