"""A stop flag that native code polls without entering Python."""

from __future__ import annotations

import ctypes
import sys

from llama_cpp import llama_cpp as native

from engine.data.errors import StopRequested


class AbortFlag:
    """ggml asks before every graph node, so a Python callback would slow each pass down.

    C's strlen on a one-byte string answers instead: "" is 0 (go on), "x" is 1 (stop).
    """

    def __init__(self) -> None:
        self._flag = ctypes.create_string_buffer(b"", 2)
        runtime = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
        self.callback = ctypes.cast(runtime.strlen, native.ggml_abort_callback)
        self.data = ctypes.cast(self._flag, ctypes.c_void_p)

    def set(self) -> None:
        self._flag[0] = b"x"

    def clear(self) -> None:
        self._flag[0] = b"\0"

    @property
    def is_set(self) -> bool:
        return self._flag[0] != b"\0"


class PassAborted(StopRequested):
    """A pass was stopped by the abort flag; the cache is back at its state before the pass,
    or where a recurrent state cannot go back, at an earlier one."""
