"""Checkpoints with heads, written without torch or safetensors."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.files.tensor_data import TensorData
from engine.heads.medusa_file import MedusaHead, MedusaHeads

Arrays = Mapping[str, NDArray[np.generic]]
Floats = Mapping[str, NDArray[np.float32]]
_SAFETENSORS = {"float32": "F32", "float16": "F16", "int64": "I64", "uint16": "BF16"}
_STORAGES = {
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "int64": "LongStorage",
    "uint16": "BFloat16Storage",
}


def medusa_arrays(
    hidden: int, rows: int, heads: int = 3, blocks: int = 1, seed: int = 0
) -> dict[str, NDArray[np.float32]]:
    """Random heads under the keys of published checkpoints."""
    random = np.random.default_rng(seed)
    found = {}
    for head in range(heads):
        for block in range(blocks):
            weight = random.standard_normal((hidden, hidden)) / np.sqrt(hidden)
            found[f"{head}.{block}.linear.weight"] = weight.astype(np.float32)
            bias = random.standard_normal(hidden).astype(np.float32)
            found[f"{head}.{block}.linear.bias"] = bias
        output = random.standard_normal((rows, hidden)) / np.sqrt(hidden)
        found[f"{head}.{blocks}.weight"] = output.astype(np.float32)
    return found


def medusa_reference(arrays: Floats, head: int, state: NDArray[np.float32]) -> NDArray[np.float32]:
    """One head in numpy: logits [rows] of a hidden state [hidden]."""
    block = 0
    values = state.astype(np.float64)
    while f"{head}.{block}.linear.weight" in arrays:
        inner = arrays[f"{head}.{block}.linear.weight"] @ values
        inner = inner + arrays[f"{head}.{block}.linear.bias"]
        values = values + inner / (1.0 + np.exp(-inner))
        block += 1
    logits: NDArray[np.float32] = (arrays[f"{head}.{block}.weight"] @ values).astype(np.float32)
    return logits


def tensor(array: NDArray[np.float32]) -> TensorData:
    return TensorData("F32", array.shape, np.ascontiguousarray(array).view(np.uint8).reshape(-1))


def medusa_heads(arrays: Floats, heads: int = 3) -> MedusaHeads:
    """One block a head."""
    return MedusaHeads(
        tuple(
            MedusaHead(
                ((tensor(arrays[f"{i}.0.linear.weight"]), tensor(arrays[f"{i}.0.linear.bias"])),),
                tensor(arrays[f"{i}.1.weight"]),
            )
            for i in range(heads)
        )
    )


def bfloat16(array: NDArray[np.float32]) -> NDArray[np.uint16]:
    return (array.view(np.uint32) >> 16).astype(np.uint16)


def write_safetensors(path: Path, arrays: Arrays) -> Path:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": _SAFETENSORS[str(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def write_torch(path: Path, arrays: Arrays, start: bytes = b"") -> Path:
    """A zip as torch.save makes it. start: pickle instructions to run before the tensors."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", _pickle(arrays, start))
        for number, array in enumerate(arrays.values()):
            archive.writestr(f"archive/data/{number}", np.ascontiguousarray(array).tobytes())
    return path


def _pickle(arrays: Arrays, start: bytes) -> bytes:
    code = b"\x80\x02" + start + b"ccollections\nOrderedDict\n)R("
    for number, (name, array) in enumerate(arrays.items()):
        strides = np.cumprod([1, *reversed(array.shape[1:])])[::-1]
        storage = f"ctorch\n{_STORAGES[str(array.dtype)]}\n".encode()
        code += _text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n("
        code += b"(" + _text("storage") + storage + _text(str(number)) + _text("cpu")
        code += _number(array.size) + b"tQ"
        code += _number(0) + _tuple(array.shape) + _tuple([int(step) for step in strides])
        code += b"\x89ccollections\nOrderedDict\n)RtR"
    return code + b"u}" + _text("_metadata") + b"}sb."  # state dictionaries carry an attribute


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _tuple(values: Sequence[int]) -> bytes:
    return b"(" + b"".join(map(_number, values)) + b"t"
