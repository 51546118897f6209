"""An owned llama.cpp context: one sequence of tokens in a KV cache, and passes over new ones.

A pass appends to the cache; truncate and keep_path cut it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from engine.data.errors import IncompatiblePairError, NativeError
from engine.data.widths import WidthClass
from engine.llama.abort import AbortFlag, PassAborted
from engine.llama.cache import KvCache
from engine.llama.kept_state import KeptState
from engine.llama.layers import FINAL_STATE, LayerInputs, PassListener, open_layer_inputs
from engine.llama.model import Model
from engine.llama.native_context import PREFILL_CHUNK, BatchSize, NativeContext, NoRoom, base_params
from engine.llama.recording import PassRecorder
from engine.llama.skipping import LayerSkipper
from engine.llama.tree import tree_sequences
from engine.maths.proposal import ROOT, Proposal
from engine.models.memory import ROLLBACK

_FLASH_ATTENTION = {None: -1, False: 0, True: 1}  # llama_flash_attn_type


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """context_length, max_rows in tokens. max_rows: widest pass with logits. max_leaves: of a tree.

    embeddings: passes with logits also return each row's final hidden state. flash_attention:
    None leaves the choice to llama.cpp. exact: every pass that verifies has a width of this class,
    and the cache holds what plain decoding would leave, cell by cell; attention adds up in cell
    order, so anything else rounds differently.
    skipper: leaves layers out on trial. recorder: see there. At most one of them and layer_inputs.
    layer_inputs: layers whose inputs every pass keeps. With FINAL_STATE among them every row of a
    prompt becomes an output, as llama.cpp has no other way to its hidden state.
    """

    context_length: int
    max_rows: int
    threads: int
    max_leaves: int = 1
    max_rollback: int = ROLLBACK
    embeddings: bool = False
    flash_attention: bool | None = None
    exact: WidthClass | None = None
    layer_inputs: tuple[int, ...] = ()
    skipper: LayerSkipper | None = None
    recorder: PassRecorder | None = None


class Context(NativeContext):
    """logits of a pass are views into native memory, valid until the next pass.

    listener: is told of every pass whose layer inputs it may want.
    """

    def __init__(
        self,
        model: Model,
        options: ContextOptions,
        abort: AbortFlag,
        layers: LayerInputs | None = None,
    ) -> None:
        """layers: how layer inputs are read, by default as the architecture allows.

        Raises NativeError, or IncompatiblePairError for what the model cannot do.
        """
        if options.max_leaves > 1 and model.has_recurrent_state:
            raise IncompatiblePairError(
                f"{model.path.stem} keeps a recurrent state, which cannot follow several branches "
                "at once; choose a drafter whose proposals are chains"
            )
        self.options = options
        self.listener: PassListener | None = None
        self._pass_rows = 0
        self._verified_from = 0
        self._feeds_outputs = FINAL_STATE in options.layer_inputs
        self._has_states = options.embeddings or self._feeds_outputs
        layers = layers or _layer_inputs(model, options.layer_inputs)
        super().__init__(
            model,
            self._params(base_params(options.threads, abort, layers), model.has_recurrent_state),
            abort,
            layers,
            BatchSize(max(PREFILL_CHUNK, options.max_rows), options.max_leaves + 1),
            NoRoom(f"a context of {options.context_length:,} tokens", "choose a smaller one"),
        )
        self._cache = KvCache(self._memory, model.sliding_window)
        # llama.cpp rounds the length up; what was asked for is what counts. Filler needs cells too.
        filler = options.exact.most_filler if options.exact is not None else 0
        cells = int(native.llama_n_ctx(self._handle))
        self.length_limit = min(options.context_length, cells - filler)
        if self._has_states and not self._probe_logits():
            self.close()
            raise IncompatiblePairError(
                f"llama.cpp computes no logits beside the hidden states of {model.path.stem}, so "
                "no drafter that reads them can be used"
            )
        self._cache.can_truncate = self._probe_truncation()
        if model.has_recurrent_state:
            step = PREFILL_CHUNK if options.exact is not None else 1
            self._cache.kept = KeptState(self.handle, step)

    def _params(self, params: native.llama_context_params, recurrent: bool) -> object:
        options = self.options
        params.n_ctx = options.context_length
        params.n_batch = max(PREFILL_CHUNK, options.max_rows)
        params.n_ubatch = PREFILL_CHUNK  # smaller ones read prompts at 0.89 to 1.0 of its speed
        if 1 < options.max_leaves >= options.max_rows:  # llama.cpp would end the process
            raise ValueError(f"{options.max_leaves} leaves in passes of {options.max_rows} rows")
        params.n_seq_max = options.max_leaves + 1 if options.max_leaves > 1 else 1
        params.n_outputs_max = params.n_batch if self._feeds_outputs else options.max_rows
        params.n_outputs_max_per_seq = params.n_outputs_max
        params.flash_attn_type = _FLASH_ATTENTION[options.flash_attention]
        params.kv_unified = True
        # Trees copy sequences: no cell reuse in a window. What it drops would depend on the drafts.
        params.swa_full = options.max_leaves > 1 or options.exact is not None
        params.embeddings = self._has_states
        if options.skipper is not None:
            params.cb_eval = options.skipper.callback
        if options.recorder is not None:
            params.cb_eval = options.recorder.callback
        if recurrent:
            params.n_rs_seq = options.max_rollback
        return params

    @property
    def tokens(self) -> list[int]:
        """What the cache holds."""
        return self._cache.tokens

    @property
    def can_truncate(self) -> bool:
        return self._cache.can_truncate

    def _probe_logits(self) -> bool:
        """Some architectures leave logits out where hidden states are wanted."""
        self._run(self._batch.fill([max(self.model.vocab.bos, 0)], 0, outputs=1))
        row = self._logits(1)
        self._cache.clear()
        return bool(row.any())

    def _probe_truncation(self) -> bool:
        """Recurrent states cannot always be rolled back: try it on two tokens."""
        if not self.model.has_recurrent_state:
            return True
        token = max(self.model.vocab.bos, 0)
        self._run(self._batch.fill([token, token], 0, outputs=2))
        possible = self._cache.remove(0, 1)
        self._cache.clear()
        return possible

    @property
    def widest_verify(self) -> int:
        """Rows of a pass that can be cut back to its first one."""
        return min(self.options.max_rows, self.widest_undone + 1)

    def layer_inputs(self, rows: int) -> NDArray[np.float32]:
        """Of the first `rows` rows of the last pass, without its filler."""
        return super().layer_inputs(self._pass_rows)[:rows]

    @property
    def widest_undone(self) -> int:
        """Rows of a pass that can be cut back altogether."""
        most = self.options.max_rows
        return min(most, self.options.max_rollback) if self.model.has_recurrent_state else most

    # Cutting back

    def reuse(self, tokens: Sequence[int], begun: int = 0) -> int:
        """Keeps the longest common prefix with `tokens` that it can go back to and drops the rest;
        returns its length. begun: how many of the tokens are of a reply that goes on."""
        cache = self._cache
        if self.options.max_leaves > 1:  # a round that failed may have left its tree
            cache.drop_branches()
        self._go_back(cache.common(tokens))
        if cache.kept is not None:
            cache.kept.aim(len(tokens) - begun)
        return len(self.tokens)

    def _go_back(self, length: int) -> None:
        """To so many tokens, or as near to them as it can."""
        cache = self._cache
        if self.listener is not None:
            length = min(length, self.listener.cut(length))
        if length > 0 and self._may_cut_to(length) and cache.cut(length):
            return
        self._go_to_kept(length)

    def _go_to_kept(self, most: int) -> None:
        """To the kept state, if that is of no more than `most` tokens, or to nothing."""
        cache = self._cache
        if not cache.go_back(most) or not self._is_followed(len(cache.tokens)):
            self.clear()

    def _may_cut_to(self, length: int) -> bool:
        if length == len(self.tokens):
            return True
        if self.options.exact is not None and self.model.has_recurrent_state:
            return False  # how far such a state goes back depends on the passes that made it
        return self._cache.may_cut_to(length)

    def _is_followed(self, length: int) -> bool:
        """Whether the listener can go on from there."""
        return self.listener is None or self.listener.cut(length) == length

    def truncate(self, length: int) -> None:
        """Drops every cached token from `length` on; NativeError when the cache refuses."""
        self._cache.truncate(length)

    def clear(self) -> None:
        if self.listener is not None:
            self.listener.cut(0)
        self._cache.clear()

    # Passes

    def feed(self, tokens: Sequence[int]) -> None:
        """Appends tokens whose logits nobody reads, at most PREFILL_CHUNK at once."""
        if len(tokens) > PREFILL_CHUNK:
            raise ValueError("feed takes one chunk at a time")
        kept, start = self._cache.kept, len(self.tokens)
        for part in [tokens] if kept is None else kept.passes(start, tokens):
            start = len(self.tokens)
            self._append(part, outputs=len(part) if self._feeds_outputs else 0)
            if self.listener is not None:
                self.listener.fed(start, part)

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
        self._pass_rows = len(tokens)
        self._run(self._batch.fill(tokens, len(self.tokens), outputs=outputs))
        self.tokens.extend(tokens)

    def verify(self, last_token: int, proposal: Proposal) -> NDArray[np.float32]:
        """One pass over the last token and the proposal: logits [1 + nodes, vocabulary].

        Row 0 follows last_token, row 1 + i follows node i. Call keep_path afterwards.
        """
        start = self._verified_from = len(self.tokens)
        tokens = (last_token, *proposal.tokens)
        if proposal.is_chain:
            logits = self.extend(self._filled(tokens))
        else:
            logits = self._verify_tree(last_token, proposal)
        if self.listener is not None:
            self.listener.verified(start, tokens)
        return logits[: len(tokens)]

    def _filler(self, rows: int) -> int:
        """Rows that a pass of so many needs besides, to stay in the class of widths."""
        return self.options.exact.filled(rows) - rows if self.options.exact is not None else 0

    def _filled(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """A run of tokens with filler behind it, where no other row sees it."""
        return (*tokens, *tokens[-1:] * self._filler(len(tokens)))

    def _verify_tree(self, last_token: int, proposal: Proposal) -> NDArray[np.float32]:
        """Filler goes on below the last node: that branch is cut behind the kept path anyway."""
        start = len(self.tokens)
        leaves = proposal.leaves()
        if len(leaves) > self.options.max_leaves:
            raise ValueError(f"{len(leaves)} leaves, the context was made for fewer")
        self._cache.branch(len(leaves))
        filled = proposal.lengthened(self._filler(1 + len(proposal)))
        positions = [start, *(start + depth for depth in filled.depths)]
        sequences = tree_sequences(filled)
        tokens = (last_token, *filled.tokens)
        if self._has_states:
            native.llama_set_embeddings(self.handle, True)
        self._pass_rows = len(tokens)
        self._run(self._batch.fill_tree(tokens, positions, sequences))
        return self._logits(len(tokens))

    def keep_path(self, last_token: int, proposal: Proposal, path: Sequence[int]) -> None:
        """After verify: the cache holds what it held, last_token and the path, nothing else."""
        self._keep(last_token, proposal, path)
        if self.listener is not None:
            self.listener.kept([0, *(1 + node for node in path)])

    def _keep(self, last_token: int, proposal: Proposal, path: Sequence[int]) -> None:
        if proposal.is_chain:
            self.truncate(self._verified_from + 1 + len(path))
            return
        tokens = (last_token, *(proposal.tokens[node] for node in path))
        if self.options.exact is not None and tuple(path) != tuple(range(len(path))):
            self._drop_pass()
            self._append(self._filled(tokens), outputs=0)
            self.truncate(self._verified_from + len(tokens))
            return
        branch = _branch_through(proposal, path[-1] if path else ROOT)
        self._cache.keep_branch(branch, tokens)

    def _run(self, batch: object) -> None:
        try:
            self._decode(batch)
        except (PassAborted, NativeError):
            self._drop_pass()
            raise

    def _drop_pass(self) -> None:
        """Forgets a tree, or what an aborted pass left behind."""
        if not self._cache.drop_pass():
            self._go_to_kept(len(self.tokens))


def _branch_through(proposal: Proposal, node: int) -> int:
    """The sequence of a leaf below the node, or of any leaf below the root."""
    for sequence, leaf in enumerate(proposal.leaves(), start=1):
        if node == ROOT or node in proposal.path(leaf):
            return sequence
    raise ValueError(f"node {node} is not in the proposal")


def _layer_inputs(model: Model, layers: Sequence[int]) -> LayerInputs | None:
    if not layers:
        return None
    architecture = model.metadata("general.architecture") or ""
    return open_layer_inputs(architecture, layers, model.layers, model.hidden_size)
