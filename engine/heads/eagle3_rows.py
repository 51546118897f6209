"""EAGLE-3 files that come without a head: its rows are read from the target.

llama.cpp runs such a file with the target's whole head. The draft tokens are listed in the
metadata, so a copy can be made that has only their rows, which is faster (FR-Spec, arXiv
2502.14856).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import ModelFileError
from engine.files.foreign_file import foreign_file
from engine.files.gguf_data import MetadataValue, read_tensors, write_gguf
from engine.files.gguf_header import read_header
from engine.files.tensor_data import TensorData, as_i64, rows_of

DRAFT_TOKENS = "forerun.draft_tokens"
"""Metadata key: target ids of the rows that the file should be given, ascending."""
_LAYERS = "eagle3.target_layers"


def head_tensors(matrix: TensorData, token_ids: NDArray[np.int64]) -> dict[str, TensorData]:
    """Rows of the target's matrix [vocabulary, hidden] as it has them, and the token of each."""
    return {"output.weight": rows_of(matrix, token_ids), "d2t": as_i64(token_ids)}


def lacks_rows(path: Path) -> bool:
    """Whether the file lists draft tokens without having their rows. ModelFileError."""
    return DRAFT_TOKENS in read_header(path).lengths


def complete_eagle3(path: Path, matrix: TensorData, destination: Path) -> None:
    """Writes a copy that has the target's rows for its draft tokens. ModelFileError."""
    with foreign_file(path):
        _complete(path, matrix, destination)


def _complete(path: Path, matrix: TensorData, destination: Path) -> None:
    metadata = read_header(path, keep=[DRAFT_TOKENS]).metadata
    tokens, layers = metadata.get(DRAFT_TOKENS), metadata.get(_LAYERS)
    if not isinstance(tokens, tuple) or not isinstance(layers, tuple):
        raise ModelFileError(f"{path.name} is damaged: it does not list its draft tokens")
    token_ids = np.array(tokens, np.int64)
    if token_ids.min() < 0 or token_ids.max() >= matrix.shape[0]:
        raise ModelFileError(f"{path.name} names tokens that the target does not have")
    kept: dict[str, MetadataValue] = {
        key: value for key, value in metadata.items() if isinstance(value, bool | int | float | str)
    }
    kept[_LAYERS] = [int(layer) for layer in layers]
    write_gguf(destination, kept, read_tensors(path) | head_tensors(matrix, token_ids))
