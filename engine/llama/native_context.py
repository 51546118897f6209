"""What every llama.cpp context owns: its handle, a batch, and the outputs of the last pass."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from engine.data.errors import NativeError
from engine.llama.abort import AbortFlag, PassAborted
from engine.llama.batch import Batch
from engine.llama.closing import Closing
from engine.llama.layers import LayerInputs
from engine.llama.log import with_reason
from engine.llama.model import Model

PREFILL_CHUNK = 512

DECODE_ERRORS = {
    1: "no room in the KV cache; choose a larger context or start a new chat",
    -1: "llama.cpp refused the batch as invalid",
    -2: "llama.cpp ran out of memory during a pass; choose a smaller context or model",
    -3: "the compute backend failed during a pass; see the log panel",
}


@dataclass(frozen=True, slots=True)
class BatchSize:
    """tokens: of a pass. sequences: that a token may belong to."""

    tokens: int
    sequences: int


@dataclass(frozen=True, slots=True)
class NoRoom:
    """What is said when native code has no room: what could not be made, and what to do."""

    what: str
    advice: str


class NativeContext(Closing):
    """layers: keeps the inputs of layers."""

    def __init__(
        self,
        model: Model,
        params: object,
        abort: AbortFlag,
        layers: LayerInputs | None,
        batch_size: BatchSize,
        no_room: NoRoom,
    ) -> None:
        """Raises NativeError."""
        self.model = model
        self._abort = abort  # native code reads it as long as the context is open
        self._layers = layers
        mark = model.log.mark()
        self._handle: int | None = native.llama_init_from_model(model.handle, params)
        if not self._handle:
            reason = model.log.reason(mark) or "no memory for it"
            raise NativeError(f"{no_room.what} could not be made: {reason}; {no_room.advice}")
        if layers is not None:
            layers.enable(self._handle)
        self._memory = native.llama_get_memory(self._handle)
        self._batch = Batch(batch_size.tokens, batch_size.sequences)

    @property
    def handle(self) -> int:
        if self._handle is None:
            raise ValueError("the context is closed")
        return self._handle

    def _decode(self, batch: object) -> None:
        """One pass. PassAborted or NativeError; the cache may hold a part of it then."""
        if self._layers is not None:
            self._layers.begin_pass()
        mark = self.model.log.mark()
        code = native.llama_decode(self.handle, batch)
        if code == 2:
            raise PassAborted
        if code != 0:
            known = DECODE_ERRORS.get(code, f"llama.cpp failed with code {code}")
            raise NativeError(with_reason(known, self.model.log.reason(mark)))

    def _logits(self, rows: int) -> NDArray[np.float32]:
        return _rows_view(native.llama_get_logits(self.handle), rows, self.model.vocab.size)

    def hidden_states(self, rows: int) -> NDArray[np.float32]:
        """Final hidden state (after the output norm) of the last pass's rows [rows, hidden]."""
        return _rows_view(native.llama_get_embeddings(self.handle), rows, self.model.hidden_size)

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


def base_params(
    threads: int, abort: AbortFlag, layers: LayerInputs | None
) -> native.llama_context_params:
    """llama.cpp's defaults, with what all contexts here have in common."""
    params = native.llama_context_default_params()
    params.n_threads = params.n_threads_batch = threads
    params.no_perf = True
    params.abort_callback = abort.callback
    params.abort_callback_data = abort.data
    if layers is not None and layers.callback is not None:
        params.cb_eval = layers.callback
    return params


def _rows_view(pointer: object, rows: int, width: int) -> NDArray[np.float32]:
    address = ctypes.cast(pointer, ctypes.c_void_p).value  # type: ignore[arg-type]
    if not address:
        raise NativeError("llama.cpp returned no output for the pass")
    buffer = (ctypes.c_float * (rows * width)).from_address(address)
    return np.ctypeslib.as_array(buffer).reshape(rows, width)
