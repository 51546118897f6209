"""Fills a context's cache with copies of what it holds: a long text without computing it."""

from __future__ import annotations

import ctypes

from llama_cpp import llama_cpp as native

from engine.data.errors import NativeError
from engine.llama.context import Context

_TEXT, _COPY = 0, 1


def can_repeat(context: Context) -> bool:
    """Not with sliding windows, nor where positions cannot be moved. Needs a second sequence."""
    if context.model.sliding_window or context.options.max_leaves < 2:
        return False
    return bool(native.llama_memory_can_shift(_memory(context)))


def repeat_text(context: Context, times: int) -> None:
    """What was fed stands `times` times more in the cache, position after position.

    For measuring how long passes take after long texts: the copies know nothing of what stands
    before them. NativeError when llama.cpp refuses.
    """
    length, memory, handle = len(context.tokens), _memory(context), context.handle
    if length * (times + 1) > context.length_limit:
        raise ValueError(f"{times + 1} times {length} tokens do not fit the context")
    content = held_state(context)
    size = len(content)
    state = (ctypes.c_uint8 * size).from_buffer_copy(content)
    tokens = list(context.tokens)
    for copy in range(1, times + 1):
        if native.llama_state_seq_set_data(handle, state, size, _COPY) == 0:
            raise NativeError("llama.cpp did not take back the state of a cache")
        native.llama_memory_seq_add(memory, _COPY, -1, -1, copy * length)
        native.llama_memory_seq_cp(memory, _COPY, _TEXT, -1, -1)
        native.llama_memory_seq_rm(memory, _COPY, -1, -1)
        context.tokens.extend(tokens)


def held_state(context: Context) -> bytes:
    """What the cache holds of the text, cell by cell. NativeError when llama.cpp refuses."""
    size = int(native.llama_state_seq_get_size(context.handle, _TEXT))
    state = (ctypes.c_uint8 * size)()
    if native.llama_state_seq_get_data(context.handle, state, size, _TEXT) != size:
        raise NativeError("llama.cpp did not give out the state of a cache")
    return bytes(state)


def _memory(context: Context) -> object:
    return native.llama_get_memory(context.handle)
