"""The state of a cache on the way through a prompt, kept to come back to it.

A recurrent state cannot be cut back far. The next prompt of a chat often leaves the last one just
before its end, where a reply was opened whose thoughts the history does not have: without the
state from there, all of the chat would be read again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

_SEQUENCE = 0
_BEGUN_REPLY = 32
"""Tokens at a prompt's end, the beginning of the reply among them, that the next may not have."""


class KeptState:
    """One state at a time; of attention, whose cells stay in the cache, it has nothing.

    length: tokens before it, 0 while there is none. step: 1, or where what follows has to be the
    same, bit by bit, as after an empty cache: the tokens of a pass of a prompt. Then the state
    stands where such a pass begins, and all before it were made as for an empty cache.
    """

    def __init__(self, handle: int, step: int = 1) -> None:
        self.length = 0
        self._handle = handle
        self._step = step
        self._place = 0
        self._regular = 0
        self._data: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._size = 0

    def aim(self, length: int) -> None:
        """A prompt of so many tokens is to be read: the place to keep a state at."""
        self._place = max(0, length - _BEGUN_REPLY) // self._step * self._step

    def passes(self, start: int, tokens: Sequence[int]) -> Iterator[Sequence[int]]:
        """Tokens from position `start` on, cut where the state is to be kept. Each part is to be
        decoded before the next is asked for."""
        cut = min(max(self._place - start, 0), len(tokens))
        for part in filter(None, (tokens[:cut], tokens[cut:])):
            yield part
            end = start + len(part)
            if start == self._regular and end % self._step == 0:
                self._regular = end
            if end == self._place and (self._step == 1 or end == self._regular):
                self._keep(end)
            start = end

    def cut(self, length: int) -> None:
        """The cache goes back to so many tokens."""
        self._regular = min(self._regular, length // self._step * self._step)
        if length < self.length:
            self.length = 0

    def clear(self) -> None:
        self.cut(0)
        self._place = 0

    def restore(self) -> bool:
        """The state is that behind `length` tokens; cells of attention are the caller's."""
        data = self._data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        read = native.llama_state_seq_set_data_ext(
            self._handle, data, self._size, _SEQUENCE, native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        )
        return int(read) == self._size

    def _keep(self, length: int) -> None:
        flags = native.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        size = int(native.llama_state_seq_get_size_ext(self._handle, _SEQUENCE, flags))
        if size > self._data.size:
            self._data = np.empty(size, np.uint8)
        data = self._data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        self._size = int(
            native.llama_state_seq_get_data_ext(self._handle, data, size, _SEQUENCE, flags)
        )
        self.length = length if self._size else 0
