"""Reads the tensors of a torch checkpoint (a zip with a pickle) without running its code.

A pickle may name any function of any module. This reader knows the few names that plain
checkpoints use and refuses everything else, before anything is called.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import ModelFileError
from engine.files.foreign_file import FAILURES, foreign_file
from engine.files.tensor_data import TensorData

MAX_PICKLE = 1 << 22
"""Bytes; tensors lie beside it, so that even large models need far less."""
MAX_DIMENSIONS = 8
_STORAGES = {
    "FloatStorage": ("F32", 4), "HalfStorage": ("F16", 2), "BFloat16Storage": ("BF16", 2),
    "DoubleStorage": ("F64", 8), "LongStorage": ("I64", 8), "IntStorage": ("I32", 4),
    "BoolStorage": ("I8", 1), "CharStorage": ("I8", 1), "ByteStorage": ("I8", 1),
}  # fmt: skip
_LOCAL_HEADER = 30


def read_torch(path: Path) -> dict[str, TensorData]:
    """Every tensor at the top level. Raises ModelFileError: damaged, or not a plain checkpoint."""
    try:
        with foreign_file(path), zipfile.ZipFile(path) as archive:
            return _read(path, archive)
    except ModelFileError as error:
        if not isinstance(error.__cause__, zipfile.BadZipFile | NotImplementedError):
            raise
        raise ModelFileError(
            f"{path.name} is not a torch checkpoint that can be read; save it again as safetensors"
        ) from error


def _read(path: Path, archive: zipfile.ZipFile) -> dict[str, TensorData]:
    names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
    if len(names) != 1:
        raise ModelFileError(f"{path.name} is not a torch checkpoint")
    entry = archive.getinfo(names[0])
    if entry.file_size > MAX_PICKLE or entry.compress_type != zipfile.ZIP_STORED:
        raise ModelFileError(f"{path.name} is not a plain torch checkpoint")
    data = np.memmap(path, np.uint8, "r")
    folder = names[0].removesuffix("data.pkl")

    def storage(key: str, count: int, dtype: str, width: int) -> _Storage:
        member = archive.getinfo(f"{folder}data/{key}")
        if member.compress_type != zipfile.ZIP_STORED or member.file_size < count * width:
            raise ValueError("a storage is compressed or too short")
        start = _data_start(data, member.header_offset)
        raw = data[start : start + count * width]
        if len(raw) != count * width:
            raise ValueError("a storage ends after the file")
        return _Storage(dtype, width, raw)

    try:
        content = _Reader(archive.read(entry), storage).load()
    except FAILURES as error:
        raise ModelFileError(f"{path.name} cannot be read safely: {error}") from error
    if not isinstance(content, Mapping):
        raise ModelFileError(f"{path.name} does not hold a table of tensors")
    return {str(key): value for key, value in content.items() if isinstance(value, TensorData)}


def _data_start(data: NDArray[np.uint8], header: int) -> int:
    """Where a stored member's bytes start, behind its local header."""
    local = data[header : header + _LOCAL_HEADER].tobytes()
    if len(local) < _LOCAL_HEADER or local[:4] != b"PK\x03\x04":
        raise ValueError("a member of the archive is damaged")
    name = int.from_bytes(local[26:28], "little")
    extra = int.from_bytes(local[28:30], "little")
    return header + _LOCAL_HEADER + name + extra


class _Storage:
    """Numbers in a row; tensors are parts of it."""

    __slots__ = ("dtype", "raw", "width")

    def __init__(self, dtype: str, width: int, raw: NDArray[np.uint8]) -> None:
        self.dtype = dtype
        self.width = width
        self.raw = raw


class _StorageDtype:
    __slots__ = ("name", "width")

    def __init__(self, name: str, width: int) -> None:
        self.name = name
        self.width = width


def _with_plain_keys(opcode: bytes, keys: slice) -> Callable[[Any], None]:
    """An operation that fills a table. keys: where they lie on the reader's stack."""
    fill = pickle._Unpickler.dispatch[opcode[0]]

    def load(reader: Any) -> None:
        if not all(type(key) in (str, int) for key in reader.stack[keys]):
            raise pickle.UnpicklingError("a table with other keys than names")
        fill(reader)

    return load


def _refused(_reader: Any) -> None:
    raise pickle.UnpicklingError("a set, which no checkpoint needs")


# The pure Python unpickler: the C one reserves memory for any memo index a file names.
class _Reader(pickle._Unpickler):
    """Keys of tables are names and numbers: a tuple that holds itself often takes for ever to hash,
    and so do sets of such."""

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.SETITEM[0]: _with_plain_keys(pickle.SETITEM, slice(-2, -1)),
        pickle.SETITEMS[0]: _with_plain_keys(pickle.SETITEMS, slice(None, None, 2)),
        pickle.DICT[0]: _with_plain_keys(pickle.DICT, slice(None, None, 2)),
        pickle.ADDITEMS[0]: _refused,
        pickle.FROZENSET[0]: _refused,
    }

    def __init__(self, data: bytes, storage: Callable[[str, int, str, int], _Storage]) -> None:
        super().__init__(BytesIO(data))
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return _ordered
        if module == "torch" and name in _STORAGES:
            return _StorageDtype(*_STORAGES[name])
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *arguments: _rebuild(*arguments[:4])
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        raise pickle.UnpicklingError(f"it wants to run {module}.{name}, which is not allowed")

    def persistent_load(self, pid: Any) -> Any:
        tag, dtype, key, _device, count = pid
        if tag != "storage" or not isinstance(dtype, _StorageDtype) or type(key) is not str:
            raise pickle.UnpicklingError("an unknown kind of reference")
        if not isinstance(count, int) or count < 0:
            raise pickle.UnpicklingError("a storage of impossible size")
        return self._storage(key, count, dtype.name, dtype.width)


def _ordered(*content: Any) -> OrderedDict[Any, Any]:
    """Saved empty, and filled afterwards."""
    if content:
        raise pickle.UnpicklingError("a table that is not saved as tables are")
    return OrderedDict()


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _rebuild(storage: Any, offset: Any, shape: Any, strides: Any) -> TensorData:
    if not isinstance(storage, _Storage):
        raise ValueError("a tensor without storage")
    shape, strides = tuple(shape), tuple(strides)
    if len(shape) != len(strides) or not all(map(_is_size, (*shape, *strides, offset))):
        raise ValueError("a tensor of impossible shape")
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError("a tensor of too many dimensions")
    expected = tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    if any(length > 1 and a != b for length, a, b in zip(shape, strides, expected, strict=True)):
        raise ValueError("a tensor that does not lie in one piece; save it again as safetensors")
    start, count = int(offset) * storage.width, math.prod(shape) * storage.width
    if start + count > len(storage.raw):
        raise ValueError("a tensor ends after its storage")
    return TensorData(storage.dtype, shape or (1,), storage.raw[start : start + count])
