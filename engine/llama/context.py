"""An owned llama.cpp context: one sequence of tokens in a KV cache, and passes over new ones.

The context knows which tokens its cache holds. A pass appends; truncate and keep_path cut back,
and every native answer is checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from engine.errors import IncompatiblePairError, NativeError
from engine.llama.abort import AbortFlag
from engine.llama.batch import Batch
from engine.llama.closing import Closing
from engine.llama.layers import FINAL_STATE, LayerInputs, PassListener, open_layer_inputs
from engine.llama.model import Model
from engine.llama.skipping import LayerSkipper
from engine.llama.tree import tree_sequences
from engine.proposal import ROOT, Proposal

PREFILL_CHUNK = 512
_FLASH_ATTENTION = {None: -1, False: 0, True: 1}  # llama_flash_attn_type


class PassAborted(Exception):  # noqa: N818 - not an error: the stop flag was set
    """A pass was stopped by the abort flag; the cache is back at its state before the pass."""


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """context_length, max_rows in tokens. max_rows: widest pass with logits. max_leaves: of a tree.

    embeddings: passes with logits also return each row's final hidden state. flash_attention:
    None leaves the choice to llama.cpp. exact_order: the cache holds what plain decoding would
    leave, cell by cell; attention adds up in cell order, so anything else rounds differently.
    skipper: leaves layers out on trial; not together with layer_inputs.
    layer_inputs: layers whose inputs every pass keeps. With FINAL_STATE among them every row of a
    prompt becomes an output, as llama.cpp has no other way to its hidden state.
    """

    context_length: int
    max_rows: int
    threads: int
    max_leaves: int = 1
    max_rollback: int = 16
    embeddings: bool = False
    flash_attention: bool | None = None
    exact_order: bool = False
    layer_inputs: tuple[int, ...] = ()
    skipper: LayerSkipper | None = None


class Context(Closing):
    """logits of a pass are views into native memory, valid until the next pass.

    listener: is told of every pass whose layer inputs it may want.
    """

    def __init__(self, model: Model, options: ContextOptions, abort: AbortFlag) -> None:
        """Raises NativeError, or IncompatiblePairError for what the model cannot do."""
        if options.max_leaves > 1 and model.has_recurrent_state:
            raise IncompatiblePairError(
                f"{model.path.stem} keeps a recurrent state, which cannot follow several branches "
                "at once; choose a drafter whose proposals are chains"
            )
        self.model = model
        self.options = options
        self.tokens: list[int] = []
        self.listener: PassListener | None = None
        self._abort = abort
        self._layers = _layer_inputs(model, options.layer_inputs)
        self._feeds_outputs = FINAL_STATE in options.layer_inputs
        self._has_states = options.embeddings or self._feeds_outputs
        self._handle: int | None = None
        self._handle = native.llama_init_from_model(model.handle, self._params())
        if not self._handle:
            raise NativeError(
                f"no memory for a context of {options.context_length:,} tokens; "
                "choose a smaller context"
            )
        if self._layers is not None:
            self._layers.enable(self._handle)
        self._memory = native.llama_get_memory(self._handle)
        self._batch = Batch(max(PREFILL_CHUNK, options.max_rows), options.max_leaves + 1)
        # llama.cpp rounds the length up; what was asked for is what counts.
        self.length_limit = min(options.context_length, int(native.llama_n_ctx(self._handle)))
        if self._has_states and not self._probe_logits():
            self.close()
            raise IncompatiblePairError(
                f"llama.cpp computes no logits beside the hidden states of {model.path.stem}, so "
                "no drafter that reads them can be used"
            )
        self.can_truncate = self._probe_truncation()

    def _params(self) -> object:
        options = self.options
        params = native.llama_context_default_params()
        params.n_ctx = options.context_length
        params.n_batch = max(PREFILL_CHUNK, options.max_rows)
        params.n_ubatch = PREFILL_CHUNK
        if 1 < options.max_leaves >= options.max_rows:  # llama.cpp would end the process
            raise ValueError(f"{options.max_leaves} leaves in passes of {options.max_rows} rows")
        params.n_seq_max = options.max_leaves + 1 if options.max_leaves > 1 else 1
        params.n_outputs_max = params.n_batch if self._feeds_outputs else options.max_rows
        params.n_outputs_max_per_seq = params.n_outputs_max
        params.n_threads = params.n_threads_batch = options.threads
        params.flash_attn_type = _FLASH_ATTENTION[options.flash_attention]
        params.kv_unified = True
        params.swa_full = options.max_leaves > 1  # trees copy sequences: no cell reuse in a window
        params.embeddings = self._has_states
        params.no_perf = True
        params.abort_callback = self._abort.callback
        params.abort_callback_data = self._abort.data
        if self._layers is not None and self._layers.callback is not None:
            params.cb_eval = self._layers.callback
        if options.skipper is not None:
            params.cb_eval = options.skipper.callback
        if self.model.has_recurrent_state:
            params.n_rs_seq = options.max_rollback
        return params

    @property
    def handle(self) -> int:
        if self._handle is None:
            raise ValueError("the context is closed")
        return self._handle

    def _probe_logits(self) -> bool:
        """Some architectures leave logits out where hidden states are wanted."""
        self._run(self._batch.fill([max(self.model.vocab.bos, 0)], 0, outputs=1))
        row = self._logits(1)
        native.llama_memory_clear(self._memory, True)
        return bool(row.any())

    def _probe_truncation(self) -> bool:
        """Recurrent states cannot always be rolled back: try it on two tokens."""
        if not self.model.has_recurrent_state:
            return True
        token = max(self.model.vocab.bos, 0)
        self._run(self._batch.fill([token, token], 0, outputs=2))
        possible = bool(native.llama_memory_seq_rm(self._memory, 0, 1, -1))
        native.llama_memory_clear(self._memory, True)
        return possible

    @property
    def widest_verify(self) -> int:
        """Rows of a pass that can be cut back to its first one."""
        if self.model.has_recurrent_state:
            return min(self.options.max_rows, self.options.max_rollback + 1)
        return self.options.max_rows

    # Cutting back

    def reuse(self, tokens: Sequence[int]) -> int:
        """Keeps the longest common prefix with `tokens` and drops the rest; returns its length."""
        if self.options.max_leaves > 1:  # a round that failed may have left its tree
            native.llama_memory_seq_keep(self._memory, 0)
        common = 0
        for held, wanted in zip(self.tokens, tokens, strict=False):
            if held != wanted:
                break
            common += 1
        if self.listener is not None:
            common = min(common, self.listener.cut(common))
        if common < len(self.tokens) and not self._may_cut_to(common):
            common = 0
        if common == 0 or not self._cut(common):
            self.clear()
            return 0
        return common

    def _may_cut_to(self, length: int) -> bool:
        """Sliding windows forget: the cells that the next token needs must still be there."""
        if not self.can_truncate:
            return False
        window = self.model.sliding_window
        if window == 0:
            return True
        oldest = int(native.llama_memory_seq_pos_min(self._memory, 0))
        return oldest <= max(0, length - window)

    def truncate(self, length: int) -> None:
        """Drops every cached token from `length` on; NativeError when the cache refuses."""
        if not self._cut(length):
            raise NativeError(f"the KV cache could not be cut back to {length} tokens")

    def _cut(self, length: int) -> bool:
        """False when the cache refuses: a recurrent state goes back max_rollback tokens at most."""
        if length >= len(self.tokens):
            return True
        if not native.llama_memory_seq_rm(self._memory, 0, length, -1):
            return False
        del self.tokens[length:]
        return True

    def clear(self) -> None:
        if self.listener is not None:
            self.listener.cut(0)
        native.llama_memory_clear(self._memory, True)
        self.tokens.clear()

    # Passes

    def feed(self, tokens: Sequence[int]) -> None:
        """Appends tokens whose logits nobody reads, at most PREFILL_CHUNK at once."""
        if len(tokens) > PREFILL_CHUNK:
            raise ValueError("feed takes one chunk at a time")
        start = len(self.tokens)
        self._append(tokens, outputs=len(tokens) if self._feeds_outputs else 0)
        if self.listener is not None:
            self.listener.fed(start, tokens)

    def extend(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Appends tokens and returns their logits [len(tokens), vocabulary]."""
        self._append(tokens, outputs=len(tokens))
        return self._logits(len(tokens))

    def extend_to_last(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Appends tokens and returns the logits after the last one [vocabulary]."""
        self._append(tokens, outputs=1)
        row: NDArray[np.float32] = self._logits(1)[0]
        return row

    def _append(self, tokens: Sequence[int], *, outputs: int) -> None:
        if self._has_states:
            # With embeddings on, llama.cpp makes every row of a pass an output.
            native.llama_set_embeddings(self.handle, outputs == len(tokens))
        self._run(self._batch.fill(tokens, len(self.tokens), outputs=outputs))
        self.tokens.extend(tokens)

    def verify(self, last_token: int, proposal: Proposal) -> NDArray[np.float32]:
        """One pass over the last token and the proposal: logits [1 + nodes, vocabulary].

        Row 0 follows last_token, row 1 + i follows node i. Call keep_path afterwards.
        """
        start = len(self.tokens)
        if proposal.is_chain:
            logits = self.extend((last_token, *proposal.tokens))
        else:
            logits = self._verify_tree(last_token, proposal)
        if self.listener is not None:
            self.listener.verified(start, (last_token, *proposal.tokens))
        return logits

    def _verify_tree(self, last_token: int, proposal: Proposal) -> NDArray[np.float32]:
        start = len(self.tokens)
        leaves = proposal.leaves()
        if len(leaves) > self.options.max_leaves:
            raise ValueError(f"{len(leaves)} leaves, the context was made for fewer")
        for sequence in range(1, len(leaves) + 1):
            native.llama_memory_seq_cp(self._memory, 0, sequence, -1, -1)
        positions = [start, *(start + depth for depth in proposal.depths)]
        sequences = tree_sequences(proposal)
        tokens = (last_token, *proposal.tokens)
        if self._has_states:
            native.llama_set_embeddings(self.handle, True)
        self._run(self._batch.fill_tree(tokens, positions, sequences))
        return self._logits(len(tokens))

    def keep_path(self, last_token: int, proposal: Proposal, path: Sequence[int]) -> None:
        """After verify: the cache holds what it held, last_token and the path, nothing else."""
        self._keep(last_token, proposal, path)
        if self.listener is not None:
            self.listener.kept([0, *(1 + node for node in path)])

    def _keep(self, last_token: int, proposal: Proposal, path: Sequence[int]) -> None:
        if proposal.is_chain:
            self.truncate(len(self.tokens) - len(proposal) + len(path))
            return
        tokens = (last_token, *(proposal.tokens[node] for node in path))
        if self.options.exact_order and tuple(path) != tuple(range(len(path))):
            self._drop_pass()
            self._append(tokens, outputs=0)
            return
        length = len(self.tokens) + len(tokens)
        kept = self._sequence_through(proposal, path[-1] if path else ROOT)
        memory = self._memory
        if not native.llama_memory_seq_rm(memory, kept, length, -1):
            raise NativeError(f"the KV cache could not be cut back to {length} tokens")
        native.llama_memory_seq_keep(memory, kept)
        native.llama_memory_seq_cp(memory, kept, 0, -1, -1)
        native.llama_memory_seq_keep(memory, 0)
        self.tokens.extend(tokens)

    @staticmethod
    def _sequence_through(proposal: Proposal, node: int) -> int:
        for sequence, leaf in enumerate(proposal.leaves(), start=1):
            if node == ROOT or node in proposal.path(leaf):
                return sequence
        raise ValueError(f"node {node} is not in the proposal")

    def _run(self, batch: object) -> None:
        if self._layers is not None:
            self._layers.begin_pass()
        code = native.llama_decode(self.handle, batch)
        if code == 0:
            return
        self._drop_pass()
        if code == 2:
            raise PassAborted
        raise NativeError(DECODE_ERRORS.get(code, f"llama.cpp failed with code {code}"))

    def _drop_pass(self) -> None:
        """Forgets a tree, or what an aborted pass left behind: back to the tokens we know of."""
        native.llama_memory_seq_keep(self._memory, 0)
        if not native.llama_memory_seq_rm(self._memory, 0, len(self.tokens), -1):
            self.clear()

    def _logits(self, rows: int) -> NDArray[np.float32]:
        pointer = native.llama_get_logits(self.handle)
        return rows_view(pointer, rows, self.model.vocab.size)

    def hidden_states(self, rows: int) -> NDArray[np.float32]:
        """Final hidden state (after the output norm) of the last pass's rows [rows, hidden]."""
        pointer = native.llama_get_embeddings(self.handle)
        return rows_view(pointer, rows, self.model.hidden_size)

    def layer_inputs(self, rows: int) -> NDArray[np.float32]:
        """Inputs of the chosen layers side by side, of the last pass's rows [rows, n x hidden]."""
        if self._layers is None:
            raise ValueError("this context keeps no layer inputs")
        return self._layers.read(self.handle, rows)

    def close(self) -> None:
        if self._handle is not None:
            self._batch.close()
            native.llama_free(self._handle)
            self._handle = None


def _layer_inputs(model: Model, layers: Sequence[int]) -> LayerInputs | None:
    if not layers:
        return None
    architecture = model.metadata("general.architecture") or ""
    return open_layer_inputs(architecture, layers, model.layers, model.hidden_size)


DECODE_ERRORS = {
    1: "no room in the KV cache; choose a larger context or start a new chat",
    -1: "llama.cpp refused the batch as invalid",
    -2: "llama.cpp ran out of memory during a pass; choose a smaller context or model",
    -3: "the compute backend failed during a pass; see the log panel",
}


def rows_view(pointer: object, rows: int, width: int) -> NDArray[np.float32]:
    address = ctypes.cast(pointer, ctypes.c_void_p).value  # type: ignore[arg-type]
    if not address:
        raise NativeError("llama.cpp returned no output for the pass")
    buffer = (ctypes.c_float * (rows * width)).from_address(address)
    return np.ctypeslib.as_array(buffer).reshape(rows, width)
