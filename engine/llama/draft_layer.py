"""One decoder layer of llama.cpp that drafts from features of the target: EAGLE-3, MTP.

An entry at position P pairs the token at P + 1 with the state of position P (EAGLE-3, arXiv
2503.01840; DeepSeek-V3, arXiv 2412.19437). Only rows that the target accepted are ever fed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from engine.data.errors import NativeError
from engine.llama.abort import AbortFlag, PassAborted
from engine.llama.context import Context
from engine.llama.ggml_api import POINTER
from engine.llama.library import extension
from engine.llama.log import with_reason
from engine.llama.model import Model

ROWS_AT_ONCE = 64
"""Encoder passes reserve logits for every row, so they are kept narrow."""

_ENCODE, _DECODE = 0, 1
_ENTRY_ERRORS = {-1: "its pass is full", -2: "it does not know the token", -3: "no such sequence"}


class DraftLayer:
    """length: entries in its KV cache. Close before the target's context."""

    context_type = native.LLAMA_CONTEXT_TYPE_DEFAULT

    def __init__(self, model: Model, target: Context, threads: int, abort: AbortFlag) -> None:
        self.model = model
        self.hidden_size = model.hidden_size
        self.vocabulary_size = model.vocab.size
        self.length = 0
        self._abort = abort  # native code reads its memory in every pass
        self._handle: int | None = None
        self._batch: int | None = None
        self._states = extension("get_embeddings_nextn", [POINTER], POINTER)
        self._state = extension("get_embeddings_nextn_ith", [POINTER, ctypes.c_int32], POINTER)
        switch = extension("set_embeddings_nextn", [POINTER, ctypes.c_bool, ctypes.c_bool], None)
        mark = model.log.mark()
        self._handle = native.llama_init_from_model(
            model.handle, self._params(target, threads, abort)
        )
        if not self._handle:
            reason = model.log.reason(mark) or "no memory for it"
            raise NativeError(
                f"the drafter's context could not be made: {reason}; choose a smaller context"
            )
        switch(self._handle, True, True)
        self._memory = native.llama_get_memory(self._handle)
        self._batch = native.llama_batch_ext_init(self._handle)
        if not self._batch:
            self.close()
            raise NativeError("no memory for the drafter's batch")

    def _params(self, target: Context, threads: int, abort: AbortFlag) -> Any:
        params = native.llama_context_default_params()
        params.ctx_type = self.context_type
        params.n_ctx = target.options.context_length
        params.n_batch = params.n_ubatch = params.n_outputs_max = ROWS_AT_ONCE
        params.n_outputs_max_per_seq = ROWS_AT_ONCE
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = threads
        params.no_perf = True
        params.abort_callback = abort.callback
        params.abort_callback_data = abort.data
        params.ctx_other = target.handle
        return params

    @property
    def handle(self) -> int:
        if self._handle is None:
            raise ValueError("the drafter's context is closed")
        return self._handle

    def feed(self, tokens: Sequence[int], states: NDArray[np.float32]) -> None:
        """Appends entries, at most ROWS_AT_ONCE, without asking for logits."""
        self._append(tokens, states, output=False)

    def draft(
        self, token: int, state: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Appends one entry: logits [vocabulary] valid until the next call, and the next state."""
        self._append([token], state[None, :], output=True)
        address = address_of(native.llama_get_logits(self.handle))
        buffer = (ctypes.c_float * self.vocabulary_size).from_address(address)
        next_state = copied(self._state(self.handle, 0), (self.hidden_size,))
        return np.ctypeslib.as_array(buffer), next_state

    def truncate(self, length: int) -> None:
        if length >= self.length:
            return
        if not native.llama_memory_seq_rm(self._memory, 0, length, -1):
            raise NativeError(f"the drafter's cache could not be cut back to {length} entries")
        self.length = length

    def _append(self, tokens: Sequence[int], states: NDArray[np.float32], *, output: bool) -> None:
        rows = np.ascontiguousarray(states, np.float32)
        native.llama_batch_ext_clear(self._batch)
        for index, (token, row) in enumerate(zip(tokens, rows, strict=True)):
            self._add(0, self.length + index, token, row, output=output)
        self._decode()
        self.length += len(tokens)

    def _add(
        self,
        sequence: int,
        position: int,
        token: int,
        state: NDArray[np.float32],
        *,
        output: bool,
    ) -> None:
        """An entry of the next pass."""
        added = native.llama_batch_ext_add_token(self._batch, sequence, token)
        self._place(added, position, output=output)
        if not native.llama_batch_ext_set_embd_token(self._batch, added, _embedding(state)):
            raise NativeError("the drafter refused a feature")

    def _place(self, index: int, position: int, *, output: bool) -> None:
        if index < 0:
            known = _ENTRY_ERRORS.get(index, f"code {index}")
            raise NativeError(f"the drafter refused an entry: {known}")
        place = native.llama_pos(position)
        placed = native.llama_batch_ext_set_pos(self._batch, index, ctypes.byref(place))
        if not placed or not native.llama_batch_ext_set_output_logits(self._batch, index, output):
            raise NativeError("the drafter refused a position")

    def _decode(self) -> None:
        self._process(_DECODE)

    def _process(self, kind: int) -> None:
        mark = self.model.log.mark()
        code = native.llama_process(self.handle, kind, self._batch)
        if code == 0:
            return
        native.llama_memory_seq_rm(self._memory, 0, self.length, -1)
        if code == 2:
            raise PassAborted
        message = f"the drafter's pass failed with code {code}"
        raise NativeError(with_reason(message, self.model.log.reason(mark)))

    def close(self) -> None:
        if self._batch is not None:
            native.llama_batch_ext_free(self._batch)
            self._batch = None
        if self._handle is not None:
            native.llama_free(self._handle)
            self._handle = None


class Eagle3Context(DraftLayer):
    """An EAGLE-3 drafter, with its encoder."""

    def encode(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Target features [rows, 3 x target hidden] to g [rows, hidden], at most ROWS_AT_ONCE."""
        rows = np.ascontiguousarray(features, np.float32)
        native.llama_batch_ext_clear(self._batch)
        for index, row in enumerate(rows):
            added = native.llama_batch_ext_add_embd(self._batch, 0, _embedding(row))
            self._place(added, self.length + index, output=True)
        self._process(_ENCODE)
        return copied(self._states(self.handle), (len(rows), self.hidden_size))


class MtpContext(DraftLayer):
    """The target's own MTP layer; its states are the target's final hidden states."""

    context_type = native.LLAMA_CONTEXT_TYPE_MTP

    def encode(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return features


def _embedding(row: NDArray[np.float32]) -> object:
    pointer = row.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    return native.llama_embd(pointer, 1, len(row))


def address_of(pointer: object) -> int:
    address = ctypes.cast(pointer, ctypes.c_void_p).value  # type: ignore[arg-type]
    if not address:
        raise NativeError("the drafter returned no output")
    return address


def copied(address: int | None, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if not address:
        raise NativeError("the drafter returned no states")
    buffer = (ctypes.c_float * int(np.prod(shape))).from_address(address)
    return np.ctypeslib.as_array(buffer).reshape(shape).copy()
