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

from engine.errors import NativeError
from engine.llama.abort import AbortFlag
from engine.llama.batch import Batch
from engine.llama.closing import Closing
from engine.llama.context import DECODE_ERRORS, PREFILL_CHUNK, PassAborted, rows_view
from engine.llama.layers import open_layer_inputs
from engine.llama.model import Model


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


class ManyContext(Closing):
    """Sequences have numbers from 0; each has its own part of the KV cache."""

    def __init__(self, model: Model, options: ManyOptions, abort: AbortFlag) -> None:
        self.model = model
        self.options = options
        self.lengths = [0] * options.sequences
        self._abort = abort
        self._layers = open_layer_inputs(
            model.metadata("general.architecture") or "",
            options.layer_inputs,
            model.layers,
            model.hidden_size,
        )
        self._handle: int | None = None
        self._handle = native.llama_init_from_model(model.handle, self._params())
        if not self._handle:
            raise NativeError(
                f"no memory for {options.sequences} sequences of {options.sequence_length:,} "
                "tokens; collect with fewer sequences"
            )
        self._layers.enable(self._handle)
        native.llama_set_embeddings(self._handle, True)
        self._memory = native.llama_get_memory(self._handle)
        self._batch = Batch(PREFILL_CHUNK, 1)

    def _params(self) -> object:
        options = self.options
        params = native.llama_context_default_params()
        params.n_ctx = options.sequences * options.sequence_length
        params.n_batch = params.n_ubatch = PREFILL_CHUNK
        params.n_seq_max = options.sequences
        params.n_outputs_max = params.n_outputs_max_per_seq = PREFILL_CHUNK
        params.n_threads = params.n_threads_batch = options.threads
        # One sequence's attention must not look through the cells of all the others.
        params.kv_unified = False
        params.embeddings = True
        params.no_perf = True
        params.abort_callback = self._abort.callback
        params.abort_callback_data = self._abort.data
        if self._layers.callback is not None:
            params.cb_eval = self._layers.callback
        return params

    @property
    def handle(self) -> int:
        if self._handle is None:
            raise ValueError("the context is closed")
        return self._handle

    def start(self, sequence: int, tokens: Sequence[int]) -> Rows:
        """A new text in a sequence, in one pass; forgets what the sequence held."""
        if not 0 < len(tokens) <= min(PREFILL_CHUNK, self.options.sequence_length):
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
        self._layers.begin_pass()
        batch = self._batch.fill_tree(tokens, positions, [(one,) for one in sequences])
        code = native.llama_decode(self.handle, batch)
        if code == 2:
            raise PassAborted
        if code != 0:
            raise NativeError(DECODE_ERRORS.get(code, f"llama.cpp failed with code {code}"))
        for one in sequences:
            self.lengths[one] += 1
        model = self.model
        return Rows(
            rows_view(native.llama_get_logits(self.handle), count, model.vocab.size),
            rows_view(native.llama_get_embeddings(self.handle), count, model.hidden_size),
            self._layers.read(self.handle, count),
        )

    def forget(self, sequence: int) -> None:
        if not native.llama_memory_seq_rm(self._memory, sequence, -1, -1):
            raise NativeError(f"sequence {sequence} could not be removed from the KV cache")
        self.lengths[sequence] = 0

    def close(self) -> None:
        if self._handle is not None:
            self._batch.close()
            native.llama_free(self._handle)
            self._handle = None
