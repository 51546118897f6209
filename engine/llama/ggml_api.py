"""The functions of ggml that small tensor graphs need, typed; nothing here owns anything."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp import llama_cpp as native

from engine.data.errors import NativeError

POINTER = ctypes.c_void_p
CPU_DEVICE = 0  # GGML_BACKEND_DEVICE_TYPE_CPU

_FOLDER = Path(llama_cpp.__file__).parent / "lib"
_LIBRARIES = ("ggml-base", "ggml", "ggml-cpu")


class InitParams(ctypes.Structure):
    """struct ggml_init_params."""

    _fields_ = (
        ("mem_size", ctypes.c_size_t),
        ("mem_buffer", ctypes.c_void_p),
        ("no_alloc", ctypes.c_bool),
    )


def _libraries() -> list[Any]:
    """libllama's handle finds its dependencies' symbols, except on Windows: there each is asked."""
    found = [native._lib]
    pattern = {"win32": "{}.dll", "darwin": "lib{}.dylib"}.get(sys.platform, "lib{}.so")
    for name in _LIBRARIES:
        path = _FOLDER / pattern.format(name)
        if path.is_file():
            found.append(ctypes.CDLL(str(path)))
    return found


_LOADED = _libraries()


def bind(name: str, arguments: Sequence[Any], result: Any) -> Any:
    """NativeError when no library of this build has the function."""
    for library in _LOADED:
        function = getattr(library, name, None)
        if function is not None:
            function.argtypes = list(arguments)
            function.restype = result
            return function
    raise NativeError(f"this build of llama.cpp does not export {name}")


_SIZE, _INT, _LONG = ctypes.c_size_t, ctypes.c_int, ctypes.c_int64


class Ggml:
    """One attribute per function; binding happens once, when the first graph is made."""

    def __init__(self) -> None:
        self.init = bind("ggml_init", [InitParams], POINTER)
        self.free = bind("ggml_free", [POINTER], None)
        self.tensor_overhead = bind("ggml_tensor_overhead", [], _SIZE)
        self.graph_overhead = bind("ggml_graph_overhead_custom", [_SIZE, ctypes.c_bool], _SIZE)
        self.new_tensor = bind(
            "ggml_new_tensor", [POINTER, _INT, _INT, ctypes.POINTER(_LONG)], POINTER
        )
        self.bytes = bind("ggml_nbytes", [POINTER], _SIZE)
        self.set_output = bind("ggml_set_output", [POINTER], None)
        self.name = bind("ggml_get_name", [POINTER], ctypes.c_char_p)
        self.quantize = bind(
            "ggml_quantize_chunk",
            [_INT, POINTER, POINTER, _LONG, _LONG, _LONG, POINTER],
            _SIZE,
        )
        # operations
        pair = [POINTER, POINTER, POINTER]
        self.mul_mat = bind("ggml_mul_mat", pair, POINTER)
        self.add = bind("ggml_add", pair, POINTER)
        self.mul = bind("ggml_mul", pair, POINTER)
        self.get_rows = bind("ggml_get_rows", pair, POINTER)
        self.silu = bind("ggml_silu", [POINTER, POINTER], POINTER)
        self.concat = bind("ggml_concat", [*pair, _INT], POINTER)
        self.rms_norm = bind("ggml_rms_norm", [POINTER, POINTER, ctypes.c_float], POINTER)
        # graphs
        self.new_graph = bind("ggml_new_graph_custom", [POINTER, _SIZE, ctypes.c_bool], POINTER)
        self.expand = bind("ggml_build_forward_expand", [POINTER, POINTER], None)
        # backends
        self.init_backend = bind("ggml_backend_init_by_type", [_INT, ctypes.c_char_p], POINTER)
        self.free_backend = bind("ggml_backend_free", [POINTER], None)
        self.backend_device = bind("ggml_backend_get_device", [POINTER], POINTER)
        self.device_registry = bind("ggml_backend_dev_backend_reg", [POINTER], POINTER)
        self.registry_function = bind(
            "ggml_backend_reg_get_proc_address", [POINTER, ctypes.c_char_p], POINTER
        )
        self.allocate = bind("ggml_backend_alloc_ctx_tensors", [POINTER, POINTER], POINTER)
        self.free_buffer = bind("ggml_backend_buffer_free", [POINTER], None)
        self.buffer_bytes = bind("ggml_backend_buffer_get_size", [POINTER], _SIZE)
        transfer = [POINTER, POINTER, _SIZE, _SIZE]
        self.write = bind("ggml_backend_tensor_set", transfer, None)
        self.read = bind("ggml_backend_tensor_get", transfer, None)
        self.compute = bind("ggml_backend_graph_compute", [POINTER, POINTER], _INT)

    def set_threads(self, backend: int, threads: int) -> None:
        registry = self.device_registry(self.backend_device(backend))
        address = self.registry_function(registry, b"ggml_backend_set_n_threads")
        if not address:
            raise NativeError("this build of llama.cpp cannot set the threads of a graph")
        ctypes.CFUNCTYPE(None, POINTER, ctypes.c_int)(address)(backend, threads)
