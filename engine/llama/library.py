"""The shared library: start-up, version, and the private symbols this version exports."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from llama_cpp import llama_cpp as native

from engine.data.device import Device, used_devices
from engine.data.errors import NativeError
from engine.llama.log import NativeLog

SUPPORTED_BINDINGS = "0.3.36"

# Not in llama.cpp's public header: exported under C++ names that differ by compiler.
EXTENSION_SYMBOLS: dict[str, tuple[str, ...]] = {
    "set_embeddings_layer_inp": ("_Z30llama_set_embeddings_layer_inpP13llama_contextjb",),
    "get_embeddings_layer_inp": ("_Z30llama_get_embeddings_layer_inpP13llama_contextj",),
    "set_embeddings_nextn": (
        "llama_set_embeddings_nextn",
        "_Z26llama_set_embeddings_nextnP13llama_contextbb",
        "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
    ),
    "get_embeddings_nextn": (
        "llama_get_embeddings_nextn",
        "_Z26llama_get_embeddings_nextnP13llama_context",
    ),
    "get_embeddings_nextn_ith": (
        "llama_get_embeddings_nextn_ith",
        "_Z30llama_get_embeddings_nextn_ithP13llama_contexti",
    ),
    "model_target_layer_ids": ("_Z28llama_model_target_layer_idsPK11llama_model",),
}


@dataclass(frozen=True, slots=True)
class Library:
    """The started library. symbols: extension symbol to availability."""

    version: str
    system_info: str
    symbols: dict[str, bool]
    log: NativeLog

    @property
    def multiplies_bf16(self) -> bool:
        """The processor has an instruction for it, and the build uses it."""
        return "AVX512_BF16 = 1" in self.system_info


def start_library() -> Library:
    """Initialises the backends once per process and probes what this build offers."""
    log = NativeLog()
    log.connect()
    native.llama_backend_init()
    symbols = {name: _find(names) is not None for name, names in EXTENSION_SYMBOLS.items()}
    return Library(
        version=_bindings_version(),
        system_info=native.llama_print_system_info().decode(errors="replace").strip(),
        symbols=symbols,
        log=log,
    )


def extension(name: str, argument_types: list[Any], result_type: Any) -> Any:
    """A private function by its logical name; NativeError when this build does not export it."""
    function = _find(EXTENSION_SYMBOLS[name])
    if function is None:
        raise NativeError(
            f"this build of llama.cpp does not export {name}; "
            f"install llama-cpp-python {SUPPORTED_BINDINGS}"
        )
    function.argtypes = argument_types
    function.restype = result_type
    return function


def has_extension(name: str) -> bool:
    return _find(EXTENSION_SYMBOLS[name]) is not None


def _find(names: tuple[str, ...]) -> Any | None:
    for name in names:
        function = getattr(native._lib, name, None)
        if function is not None:
            return function
    return None


def _bindings_version() -> str:
    return version("llama-cpp-python")


class _DeviceMemory:
    """ggml's device list; these functions live in libggml, which libllama pulls in."""

    def __init__(self) -> None:
        library = native._lib
        self.count = library.ggml_backend_dev_count
        self.count.restype = ctypes.c_size_t
        self.get = library.ggml_backend_dev_get
        self.get.argtypes, self.get.restype = [ctypes.c_size_t], ctypes.c_void_p
        self.kind = library.ggml_backend_dev_type
        self.kind.argtypes, self.kind.restype = [ctypes.c_void_p], ctypes.c_int
        self.name = library.ggml_backend_dev_name
        self.name.argtypes, self.name.restype = [ctypes.c_void_p], ctypes.c_char_p
        self.description = library.ggml_backend_dev_description
        self.description.argtypes = [ctypes.c_void_p]
        self.description.restype = ctypes.c_char_p
        self.memory = library.ggml_backend_dev_memory
        size_pointer = ctypes.POINTER(ctypes.c_size_t)
        self.memory.argtypes = [ctypes.c_void_p, size_pointer, size_pointer]
        self.memory.restype = None


_CARD, _INTEGRATED = 1, 2  # GGML_BACKEND_DEVICE_TYPE_GPU, _IGPU


def devices() -> tuple[Device, ...]:
    """GPUs that this build uses, with their free and total memory."""
    api = _DeviceMemory()
    found = []
    for index in range(api.count()):
        handle = api.get(index)
        kind = api.kind(handle)
        if kind not in (_CARD, _INTEGRATED):
            continue
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        api.memory(handle, ctypes.byref(free), ctypes.byref(total))
        device = Device(
            name=(api.name(handle) or b"").decode(errors="replace"),
            description=(api.description(handle) or b"").decode(errors="replace"),
            free_bytes=free.value,
            total_bytes=total.value,
        )
        found.append((device, kind == _INTEGRATED))
    return used_devices(found)
