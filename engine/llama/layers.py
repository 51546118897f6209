"""The inputs of a target's inner layers, for drafters that read them (EAGLE-3, EAGLE).

Some architectures hand them out by private functions of llama.cpp. For the others the outputs of
the layers before are captured while the graph runs, which costs a Python call per graph node.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from engine.data.errors import IncompatiblePairError, NativeError
from engine.llama.ggml_api import POINTER, bind
from engine.llama.library import extension, has_extension

HIDDEN_STATE = frozenset(
    {"bailingmoe3", "cohere2moe", "deepseek2", "glm4moe", "gpt-oss", "hy_v3", "mimo2", "qwen35"}
    | {"qwen35moe", "qwen3next", "gemma4"}
)
"""Architectures that hand out what their head reads, as the input of the layer after the last."""

EXPOSING = frozenset(
    {"llama", "qwen3", "qwen3moe", "qwen3next", "qwen35", "qwen35moe", "gemma4", "gpt-oss"}
)
"""Architectures whose graphs hand out layer inputs; asking another one ends the process."""


FINAL_STATE = 0
"""Among layers, the hidden state after the output norm, which the output matrix reads."""


class PassListener(Protocol):
    """Follows what enters a context, to read the layer inputs of each pass."""

    def cut(self, length: int) -> int:
        """The cache goes back to `length` tokens; returns how many of them the listener knows."""
        ...

    def fed(self, start: int, tokens: Sequence[int]) -> None:
        """A pass has appended tokens from position `start` on."""
        ...

    def verified(self, start: int, tokens: Sequence[int]) -> None:
        """A pass has verified the last token and a proposal, of which some rows will stay."""
        ...

    def kept(self, rows: Sequence[int]) -> None:
        """Which rows of the verified pass stay in the cache, in the order of the text."""
        ...


class LayerInputs(Protocol):
    """callback: for the context's parameters, None if it needs none."""

    @property
    def callback(self) -> object | None: ...

    def enable(self, handle: int) -> None: ...

    def begin_pass(self) -> None: ...

    def read(self, handle: int, rows: int) -> NDArray[np.float32]: ...


def open_layer_inputs(
    architecture: str, layers: Sequence[int], count: int, hidden: int
) -> LayerInputs:
    """layers: from 1; `count`, the number of layers, stands for what the head reads.

    FINAL_STATE must come first. IncompatiblePairError when the target has no such layer or does
    not show it.
    """
    if FINAL_STATE in layers:
        rest = [layer for layer in layers if layer != FINAL_STATE]
        return FinalStates(
            hidden, open_layer_inputs(architecture, rest, count, hidden) if rest else None
        )
    last = count if architecture in HIDDEN_STATE else count - 1
    if any(not 1 <= layer <= last for layer in layers):
        raise IncompatiblePairError(
            f"the drafter reads layers {', '.join(map(str, layers))} of a target with {count}"
        )
    exposed = architecture in EXPOSING and has_extension("set_embeddings_layer_inp")
    if exposed or set(layers) == {count}:
        return ExposedLayers(layers, hidden, count)
    return CapturedLayers(layers, hidden)


class FinalStates:
    """Final hidden states beside other layers' inputs; every row of a pass must be an output."""

    def __init__(self, hidden: int, others: LayerInputs | None) -> None:
        self._hidden = hidden
        self._others = others
        self.callback = others.callback if others is not None else None

    def enable(self, handle: int) -> None:
        if self._others is not None:
            self._others.enable(handle)

    def begin_pass(self) -> None:
        if self._others is not None:
            self._others.begin_pass()

    def read(self, handle: int, rows: int) -> NDArray[np.float32]:
        """Of every row of the last pass, [rows, (1 + layers) x hidden]; a copy."""
        pointer = native.llama_get_embeddings(handle)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        if not address:
            raise NativeError("llama.cpp returned no hidden states")
        buffer = (ctypes.c_float * (rows * self._hidden)).from_address(address)
        states = np.ctypeslib.as_array(buffer).reshape(rows, self._hidden)
        if self._others is None:
            return states.copy()
        return np.concatenate([states, self._others.read(handle, rows)], axis=1)


class ExposedLayers:
    """By the extension functions; NativeError when this build does not export them."""

    callback = None

    def __init__(self, layers: Sequence[int], hidden: int, count: int) -> None:
        self._hidden = hidden
        self._enable: list[Callable[[int], None]] = []
        self._address: list[Callable[[int], int | None]] = []
        for layer in layers:
            self._add(layer, is_state=layer == count)

    def _add(self, layer: int, *, is_state: bool) -> None:
        if is_state:
            turn_on = extension(
                "set_embeddings_nextn", [POINTER, ctypes.c_bool, ctypes.c_bool], None
            )
            get = extension("get_embeddings_nextn", [POINTER], POINTER)
            self._enable.append(lambda handle: turn_on(handle, True, False))
            self._address.append(get)
            return
        switch = extension(
            "set_embeddings_layer_inp", [POINTER, ctypes.c_uint32, ctypes.c_bool], None
        )
        fetch = extension("get_embeddings_layer_inp", [POINTER, ctypes.c_uint32], POINTER)
        self._enable.append(lambda handle: switch(handle, layer, True))
        self._address.append(lambda handle: fetch(handle, layer))

    def enable(self, handle: int) -> None:
        for enable in self._enable:
            enable(handle)

    def begin_pass(self) -> None:
        pass

    def read(self, handle: int, rows: int) -> NDArray[np.float32]:
        """Of every row of the last pass, [rows, layers x hidden]; a copy."""
        parts = []
        for address_of in self._address:
            address = address_of(handle)
            if not address:
                raise NativeError("llama.cpp returned no layer inputs")
            buffer = (ctypes.c_float * (rows * self._hidden)).from_address(address)
            parts.append(np.ctypeslib.as_array(buffer).reshape(rows, self._hidden))
        return np.concatenate(parts, axis=1)


class CapturedLayers:
    """By the scheduler's callback: the input of layer n is the output of layer n - 1."""

    def __init__(self, layers: Sequence[int], hidden: int) -> None:
        self._hidden = hidden
        self._names = [f"l_out-{layer - 1}".encode() for layer in layers]
        self._wanted = frozenset(self._names)
        self._parts: dict[bytes, list[NDArray[np.float32]]] = {}
        self._name_of = bind("ggml_get_name", [POINTER], ctypes.c_char_p)
        self._bytes_of = bind("ggml_nbytes", [POINTER], ctypes.c_size_t)
        self._copy = bind(
            "ggml_backend_tensor_get", [POINTER, POINTER, ctypes.c_size_t, ctypes.c_size_t], None
        )
        self.callback = native.ggml_backend_sched_eval_callback(self._asked)

    def enable(self, handle: int) -> None:
        pass

    def begin_pass(self) -> None:
        self._parts = {name: [] for name in self._names}

    def _asked(self, tensor: int, ask: bool, _user_data: object) -> bool:
        """Asked before a node runs whether it is wanted, and called again with its result."""
        name = self._name_of(tensor)
        if ask:
            return name in self._wanted
        if name in self._wanted and self._parts:
            values = np.empty(self._bytes_of(tensor) // 4, np.float32)
            self._copy(tensor, values.ctypes.data, 0, values.nbytes)
            self._parts[name].append(values)
        return True

    def read(self, handle: int, rows: int) -> NDArray[np.float32]:
        """Of every row of the last pass, [rows, layers x hidden]."""
        found = []
        for name in self._names:
            part = self._parts.get(name)
            values = np.concatenate(part) if part else np.empty(0, np.float32)
            if len(values) != rows * self._hidden:
                raise NativeError(
                    f"this architecture does not show the tensor {name.decode()} for every row"
                )
            found.append(values.reshape(rows, self._hidden))
        return np.concatenate(found, axis=1)
