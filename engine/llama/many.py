"""An owned llama.cpp context that holds many sequences: one pass goes one token on in all of them.

For collecting what a target says, where passes over one sequence would waste the machine. Every
row of a pass has logits, the final hidden state and the inputs of the chosen layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from engine.data.errors import NativeError
from engine.llama.abort import AbortFlag
from engine.llama.layers import open_layer_inputs
from engine.llama.model import Model
from engine.llama.native_context import PREFILL_CHUNK, BatchSize, NativeContext, NoRoom, base_params


@dataclass(frozen=True, slots=True)
class ManyOptions:
    """sequences: held at once. sequence_length: tokens that each may have."""

    sequences: int
    sequence_length: int
    threads: int
    layer_inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """What a pass gave, a row a token, in the order of the batch. Views: gone at the next pass.

    logits [n, vocabulary], hidden [n, hidden] after the output norm, layers [n, layers x hidden].
    """

    logits: NDArray[np.float32]
    hidden: NDArray[np.float32]
    layers: NDArray[np.float32]


class ManyContext(NativeContext):
    """Sequences have numbers from 0; each has its own part of the KV cache."""

    def __init__(self, model: Model, options: ManyOptions, abort: AbortFlag) -> None:
        self.options = options
        self.lengths = [0] * options.sequences
        architecture = model.metadata("general.architecture") or ""
        layers = open_layer_inputs(
            architecture, options.layer_inputs, model.layers, model.hidden_size
        )
        super().__init__(
            model,
            self._params(base_params(options.threads, abort, layers)),
            abort,
            layers,
            BatchSize(PREFILL_CHUNK, 1),
            NoRoom(
                f"{options.sequences} sequences of {options.sequence_length:,} tokens",
                "collect with fewer sequences",
            ),
        )
        native.llama_set_embeddings(self.handle, True)

    def _params(self, params: native.llama_context_params) -> object:
        options = self.options
        params.n_ctx = options.sequences * options.sequence_length
        params.n_batch = params.n_ubatch = PREFILL_CHUNK
        params.n_seq_max = options.sequences
        params.n_outputs_max = params.n_outputs_max_per_seq = PREFILL_CHUNK
        # One sequence's attention must not look through the cells of all the others.
        params.kv_unified = False
        params.embeddings = True
        return params

    @property
    def longest_start(self) -> int:
        """Tokens of a text that can be started with."""
        return min(PREFILL_CHUNK, self.options.sequence_length)

    def start(self, sequence: int, tokens: Sequence[int]) -> Rows:
        """A new text in a sequence, in one pass; forgets what the sequence held."""
        if not 0 < len(tokens) <= self.longest_start:
            raise ValueError(f"a start of {len(tokens)} tokens")
        self.forget(sequence)
        return self._append(tokens, [0] * len(tokens), [sequence] * len(tokens))

    def step(self, sequences: Sequence[int], tokens: Sequence[int]) -> Rows:
        """One more token in each of the sequences, which are in ascending order.

        Passes are cut where numbers are missing, in this order, so rows stay in the order given.
        """
        if list(sequences) != sorted(set(sequences)) or not sequences:
            raise ValueError("sequences must ascend")
        return self._append(tokens, [self.lengths[one] for one in sequences], sequences)

    def _append(
        self, tokens: Sequence[int], starts: Sequence[int], sequences: Sequence[int]
    ) -> Rows:
        count = len(tokens)
        alone = sequences[0] == sequences[-1]
        positions = range(starts[0], starts[0] + count) if alone else starts
        if max(positions) >= self.options.sequence_length:
            raise ValueError(f"sequences end at {self.options.sequence_length} tokens")
        self._decode(self._batch.fill_tree(tokens, positions, [(one,) for one in sequences]))
        for one in sequences:
            self.lengths[one] += 1
        return Rows(self._logits(count), self.hidden_states(count), self.layer_inputs(count))

    def forget(self, sequence: int) -> None:
        if not native.llama_memory_seq_rm(self._memory, sequence, -1, -1):
            raise NativeError(f"sequence {sequence} could not be removed from the KV cache")
        self.lengths[sequence] = 0
