"""Writes trained Medusa heads: our GGUF container, and the published safetensors layout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.files.disk import write_atomically
from engine.files.safetensors_file import write_safetensors
from engine.files.tensor_data import TensorData
from engine.heads.medusa_file import MedusaHead, MedusaHeads, target_hash, write_medusa
from engine.train.encoded import encoded
from engine.train.target_weights import TargetWeights

Weights = Mapping[str, NDArray[np.float32]]


def write_container(
    path: Path, weights: Weights, token_ids: NDArray[np.int64], target: TargetWeights, kind: str
) -> None:
    """weights: by the published names; heads without rows of their own share the target's.

    token_ids: target ids of the rows. kind: of the matrices. ModelFileError when the disk refuses.
    """
    count = 1 + max(int(name.partition(".")[0]) for name in weights)
    heads = tuple(_head(weights, head, kind) for head in range(count))
    write_medusa(path, MedusaHeads(heads, token_ids, target_hash(target.info), target.info.name))


def _head(weights: Weights, head: int, kind: str) -> MedusaHead:
    blocks: list[tuple[TensorData, TensorData]] = []
    while (name := f"{head}.{len(blocks)}.linear.weight") in weights:
        bias = weights[f"{head}.{len(blocks)}.linear.bias"]
        blocks.append((encoded(weights[name], kind), encoded(bias, "F32")))
    own = weights.get(f"{head}.{len(blocks)}.weight")
    return MedusaHead(tuple(blocks), None if own is None else encoded(own, kind))


def write_published(
    folder: Path, weights: Weights, token_ids: NDArray[np.int64], target: TargetWeights
) -> None:
    """medusa_lm_head.safetensors and config.json, in half precision.

    The layout has a whole matrix to the vocabulary for every head: it is large. Rows that a head
    has not learned, because its draft vocabulary lacks their tokens, are the target's.
    """
    count = 1 + max(int(name.partition(".")[0]) for name in weights)
    blocks = sum(name.startswith("0.") and name.endswith("linear.bias") for name in weights)
    tensors: dict[str, NDArray[np.generic]] = {
        name: values.astype(np.float16) for name, values in weights.items() if "linear" in name
    }
    rows = target.head_rows(np.arange(target.vocabulary)).astype(np.float16)
    for head in range(count):
        own = weights.get(f"{head}.{blocks}.weight")
        whole = rows
        if own is not None:
            whole = rows.copy()
            whole[token_ids] = own
        tensors[f"{head}.{blocks}.weight"] = whole
    write_safetensors(folder / "medusa_lm_head.safetensors", tensors)
    config = {
        "medusa_num_heads": count,
        "medusa_num_layers": blocks,
        "base_model_name_or_path": target.info.name,
        "version": "2",
    }
    write_atomically(folder / "config.json", json.dumps(config, indent=2) + "\n")
