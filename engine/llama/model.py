"""An owned llama.cpp model: weights and vocabulary."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from llama_cpp import llama_cpp as native

from engine.data.errors import ModelFileError, StopRequested
from engine.data.shown import shown_name
from engine.llama.closing import Closing
from engine.llama.log import NativeLog
from engine.llama.vocab import Vocab
from engine.models.vocabulary import require_distinct_tokens, vocabulary_identity


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """gpu_layers: -1 means all. repack: rearrange weights for this CPU's matrix kernels.

    mtp: also load layers that predict tokens after the next one, if the file has any.
    """

    gpu_layers: int = -1
    repack: bool = True
    mtp: bool = False


class Model(Closing):
    """Close contexts before the model. Closing twice is safe. log: says why a call failed."""

    def __init__(
        self,
        path: Path,
        options: ModelOptions,
        log: NativeLog,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        """on_progress: StopRequested out of it ends the load, and comes out here."""
        self.path = path
        self.options = options
        self.log = log
        self._handle: int | None = None
        require_distinct_tokens(path)
        params = native.llama_model_default_params()
        params.n_gpu_layers = options.gpu_layers
        params.use_extra_bufts = options.repack
        params.load_mtp = options.mtp
        params.check_tensors = True

        stopped: list[StopRequested] = []

        def progress(fraction: float, _user_data: object) -> bool:
            try:
                if on_progress is not None:
                    on_progress(fraction)
            except StopRequested as request:  # native code knows no exceptions
                stopped.append(request)
            return not stopped

        callback = native.llama_progress_callback(progress)
        params.progress_callback = callback
        mark = log.mark()
        self._handle = native.llama_model_load_from_file(os.fsencode(path), params)
        if stopped:
            self.close()
            raise stopped[0]
        if not self._handle:
            reason = log.reason(mark) or "llama.cpp gives no reason"
            raise ModelFileError(f"{path.name} could not be loaded: {reason}")
        self.vocab = Vocab(native.llama_model_get_vocab(self._handle))

    @cached_property
    def vocabulary_identity(self) -> str:
        """Of its file, which is read at the load: it may be gone later."""
        return vocabulary_identity(self.path)

    @property
    def handle(self) -> int:
        if self._handle is None:
            raise ValueError("the model is closed")
        return self._handle

    @property
    def description(self) -> str:
        buffer = ctypes.create_string_buffer(256)
        native.llama_model_desc(self.handle, buffer, len(buffer))
        return shown_name(buffer.value.decode(errors="replace"))

    @property
    def weight_bytes(self) -> int:
        return int(native.llama_model_size(self.handle))

    @property
    def trained_context(self) -> int:
        return int(native.llama_model_n_ctx_train(self.handle))

    @property
    def layers(self) -> int:
        return int(native.llama_model_n_layer(self.handle))

    @property
    def hidden_size(self) -> int:
        return int(native.llama_model_n_embd(self.handle))

    @property
    def sliding_window(self) -> int:
        """Tokens that a sliding-window layer sees; 0 for full attention."""
        return int(native.llama_model_n_swa(self.handle))

    @property
    def has_recurrent_state(self) -> bool:
        return bool(
            native.llama_model_is_recurrent(self.handle)
            or native.llama_model_is_hybrid(self.handle)
        )

    @property
    def generates_text(self) -> bool:
        return bool(native.llama_model_has_decoder(self.handle))

    def metadata(self, key: str) -> str | None:
        """A metadata value as text, None if the file does not have it."""
        capacity = 1024
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            count = native.llama_model_meta_val_str(self.handle, key.encode(), buffer, capacity)
            if count < 0:
                return None
            if count < capacity:
                return shown_name(buffer.value.decode(errors="replace"))
            capacity = count + 1

    def close(self) -> None:
        if self._handle is not None:
            native.llama_model_free(self._handle)
            self._handle = None
