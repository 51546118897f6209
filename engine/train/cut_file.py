"""Writes a target that was cut to a few layers and tuned: a GGUF of the target's architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import ModelFileError
from engine.files.gguf_header import Header, Tensor, read_header
from engine.files.gguf_types import TENSOR_TYPES
from engine.llama.log import NativeLog
from engine.llama.quantize import copy_without_layers, requantize
from engine.train.target_weights import TargetWeights

_WRITABLE = {"F32": "<f4", "F16": "<f2"}


def write_cut(
    path: Path,
    weights: Mapping[str, NDArray[np.float32]],
    kept: Sequence[int],
    target: TargetWeights,
    kind: str,
    log: NativeLog,
) -> None:
    """weights: see torch_early_exit.initial_weights. kept: the target's layers they began as.

    llama.cpp copies the target without the other layers, so that tokenizer, template and settings
    are the target's; then the learned weights are put in place and all of it takes the format.
    """
    skipped = [layer for layer in range(target.layers) if layer not in kept]
    cut, plain = (path.with_name(f"{path.name}.{part}") for part in ("cut", "f16"))
    try:
        copy_without_layers(target.path, cut, skipped, log)
        requantize(cut, plain, "F16", log)
        cut.unlink()
        _put(plain, _as_stored(weights, target))
        if kind == "F16":
            plain.replace(path)
        else:
            requantize(plain, path, kind, log)
    finally:
        cut.unlink(missing_ok=True)
        plain.unlink(missing_ok=True)


def _as_stored(
    weights: Mapping[str, NDArray[np.float32]], target: TargetWeights
) -> dict[str, NDArray[np.float32]]:
    """q and k in the rotary order of the target's architecture."""
    heads = {"attn_q": target.shape.heads, "attn_k": target.shape.kv_heads}
    return {
        name: target.stored_order(values, heads[part])
        if (part := name.split(".")[-2]) in heads
        else values
        for name, values in weights.items()
    }


def _put(path: Path, weights: Mapping[str, NDArray[np.float32]]) -> None:
    header = read_header(path)
    places = {tensor.name: tensor for tensor in header.tensors}
    missing = _not_covered(header, weights)
    if missing:
        raise ModelFileError(f"{path.name} and the learned weights differ: {missing[0]}")
    with path.open("r+b") as file:
        for name, values in weights.items():
            tensor = places[name]
            data = values.astype(_WRITABLE[TENSOR_TYPES[tensor.type][0]]).tobytes()
            if len(data) != tensor.bytes:
                raise ModelFileError(f"{path.name}: {name} has another size than what was learned")
            file.seek(tensor.start)
            file.write(data)


def _not_covered(header: Header, weights: Mapping[str, NDArray[np.float32]]) -> list[str]:
    """Weights without a place, and layers of the file that nothing was learned for."""
    names = {tensor.name for tensor in header.tensors}
    layers = {tensor.name for tensor in header.tensors if _is_learned(tensor)}
    return sorted((set(weights) - names) | (layers - set(weights)))


def _is_learned(tensor: Tensor) -> bool:
    return tensor.name.startswith("blk.") or tensor.name == "output_norm.weight"
