"""An owned llama.cpp batch, filled in place through numpy views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llama_cpp import llama_cpp as native


class Batch:
    """Holds up to `capacity` tokens, each in up to `max_sequences` sequences."""

    def __init__(self, capacity: int, max_sequences: int) -> None:
        self.capacity = capacity
        self._batch = native.llama_batch_init(capacity, 0, max_sequences)
        self._tokens = np.ctypeslib.as_array(self._batch.token, shape=(capacity,))
        self._positions = np.ctypeslib.as_array(self._batch.pos, shape=(capacity,))
        self._counts = np.ctypeslib.as_array(self._batch.n_seq_id, shape=(capacity,))
        self._outputs = np.ctypeslib.as_array(self._batch.logits, shape=(capacity,))
        self._closed = False

    def fill(self, tokens: Sequence[int], position: int, *, outputs: int) -> object:
        """A run of tokens of sequence 0 from position on; the last `outputs` get logits."""
        count = len(tokens)
        self._batch.n_tokens = count
        self._tokens[:count] = tokens
        self._positions[:count] = np.arange(position, position + count)
        self._counts[:count] = 1
        self._outputs[: count - outputs] = False
        self._outputs[count - outputs : count] = True
        for index in range(count):
            self._batch.seq_id[index][0] = 0
        return self._batch

    def fill_tree(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[Sequence[int]],
    ) -> object:
        """Nodes parents-first, each with the ids of all sequences that run through it."""
        count = len(tokens)
        self._batch.n_tokens = count
        self._tokens[:count] = tokens
        self._positions[:count] = positions
        self._outputs[:count] = True
        for index, ids in enumerate(sequences):
            self._counts[index] = len(ids)
            for place, sequence in enumerate(ids):
                self._batch.seq_id[index][place] = sequence
        return self._batch

    def close(self) -> None:
        if not self._closed:
            native.llama_batch_free(self._batch)
            self._closed = True
