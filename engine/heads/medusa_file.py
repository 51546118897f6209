"""Medusa heads (Cai et al. 2024, arXiv 2401.10774): published checkpoints and our own container.

Head i is some blocks x + SiLU(W x + b) and a matrix to the vocabulary. It reads the target's
final hidden state at position t and predicts the token at t + 2 + i.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.data.documents import DocumentError, parse_json
from engine.data.errors import ModelFileError
from engine.data.shown import shown_name
from engine.files.foreign_file import foreign_file
from engine.files.gguf import GgufInfo
from engine.files.gguf_data import MetadataValue, read_tensors, write_gguf
from engine.files.gguf_header import read_header
from engine.files.safetensors_file import read_safetensors
from engine.files.tensor_data import FLOATS, TensorData, as_i64, as_q8_0, rows_of
from engine.files.torch_file import read_torch

ARCHITECTURE = "medusa-heads"
CHECKPOINT_NAMES = ("medusa_lm_head.safetensors", "medusa_lm_head.pt")
MAX_HEADS = 16
MAX_BLOCKS = 8
_MAX_CONFIG = 1 << 20
_BLOCK_KEY = re.compile(r"(?P<head>\d+)\.(?P<layer>\d+)\.linear\.(?P<part>weight|bias)")
_OUTPUT_KEY = re.compile(r"(?P<head>\d+)\.(?P<layer>\d+)\.weight")
_PREFIX = "medusa_head."
_TOKEN_IDS = "token_ids"


@dataclass(frozen=True, slots=True)
class MedusaHead:
    """blocks: (W [hidden, hidden], b [hidden]) of each block.

    output: [rows, hidden], None for the rows of the target's own matrix.
    """

    blocks: tuple[tuple[TensorData, TensorData], ...]
    output: TensorData | None


@dataclass(frozen=True, slots=True)
class MedusaHeads:
    """A whole set. token_ids: target id of every output row, None if row i is token i.

    target_hash: target_hash() of the model they were made for, "" if not known.
    """

    heads: tuple[MedusaHead, ...]
    token_ids: NDArray[np.int64] | None = None
    target_hash: str = ""
    base_model: str = ""

    def __post_init__(self) -> None:
        if self.shares_rows and (self.token_ids is None or not self.heads[0].blocks):
            raise ValueError("heads without rows need a block and a list of tokens")

    @property
    def shares_rows(self) -> bool:
        """Whether the rows are the target's, to be read from its file."""
        return self.heads[0].output is None

    @property
    def hidden_size(self) -> int:
        output = self.heads[0].output
        return self.heads[0].blocks[0][0].shape[1] if output is None else output.shape[1]

    @property
    def rows(self) -> int:
        output = self.heads[0].output
        if output is not None:
            return output.shape[0]
        return 0 if self.token_ids is None else len(self.token_ids)

    @property
    def bytes(self) -> int:
        """As stored; rows that several heads share count once."""
        outputs = {id(head.output): head.output.raw.nbytes for head in self.heads if head.output}
        blocks = (part.raw.nbytes for head in self.heads for pair in head.blocks for part in pair)
        return sum(outputs.values()) + sum(blocks)

    def with_rows(self, matrix: TensorData) -> MedusaHeads:
        """The same heads with their rows of the target's matrix [vocabulary, hidden] in place."""
        if self.token_ids is None:
            raise ValueError("the heads do not say which rows they need")
        rows = rows_of(matrix, self.token_ids)
        return replace(self, heads=tuple(MedusaHead(head.blocks, rows) for head in self.heads))


def find_medusa(path: Path) -> Path:
    """The checkpoint itself: `path`, or the known file inside the folder `path`."""
    if not path.is_dir():
        return path
    for name in CHECKPOINT_NAMES:
        if (path / name).is_file():
            return path / name
    raise ModelFileError(f"{path} holds neither {' nor '.join(CHECKPOINT_NAMES)}")


def read_medusa(path: Path) -> MedusaHeads:
    """A GGUF container, a safetensors file, a torch checkpoint, or a folder with one of those.

    Raises ModelFileError: damaged, incomplete, or not Medusa heads.
    """
    path = find_medusa(path)
    with foreign_file(path):
        if path.suffix == ".gguf":
            return _read_container(path)
        tensors = read_safetensors(path) if path.suffix == ".safetensors" else read_torch(path)
        heads = _collect(path.name, tensors)
        return MedusaHeads(heads, base_model=_base_model(path.with_name("config.json")))


def write_medusa(path: Path, heads: MedusaHeads) -> None:
    """Writes the container; formats of the weights stay as they are."""
    metadata: dict[str, MetadataValue] = {
        "general.architecture": ARCHITECTURE,
        "general.name": shown_name(path.stem),
        f"{ARCHITECTURE}.embedding_length": heads.hidden_size,
        f"{ARCHITECTURE}.vocab_size": heads.rows,
        f"{ARCHITECTURE}.target_hash": heads.target_hash,
        f"{ARCHITECTURE}.base_model": heads.base_model,
    }
    tensors: dict[str, TensorData] = {}
    for number, head in enumerate(heads.heads):
        for layer, (weight, bias) in enumerate(head.blocks):
            tensors[f"{number}.{layer}.linear.weight"] = weight
            tensors[f"{number}.{layer}.linear.bias"] = bias
        if head.output is not None:
            tensors[f"{number}.{len(head.blocks)}.weight"] = head.output
    if heads.token_ids is not None:
        tensors[_TOKEN_IDS] = as_i64(heads.token_ids)
    write_gguf(path, metadata, tensors)


def trimmed(heads: MedusaHeads, token_ids: NDArray[np.int64]) -> MedusaHeads:
    """The same heads for some tokens only (FR-Spec, arXiv 2502.14856): smaller, still exact.

    token_ids: ids to keep, ascending; every head must predict all of the vocabulary.
    """
    if heads.token_ids is not None:
        raise ValueError("the heads are trimmed already")

    kept = tuple(
        MedusaHead(head.blocks, None if head.output is None else rows_of(head.output, token_ids))
        for head in heads.heads
    )
    return MedusaHeads(kept, token_ids, heads.target_hash, heads.base_model)


def quantised(heads: MedusaHeads) -> MedusaHeads:
    """The same heads with Q8_0 matrices; what is quantised already stays."""

    def smaller(data: TensorData) -> TensorData:
        return as_q8_0(data.floats()) if data.dtype in FLOATS else data

    return replace(
        heads,
        heads=tuple(
            MedusaHead(
                tuple((smaller(w), b) for w, b in head.blocks),
                None if head.output is None else smaller(head.output),
            )
            for head in heads.heads
        ),
    )


def target_hash(info: GgufInfo) -> str:
    """Names a model up to its quantisation: what heads trained for it are tied to."""
    parts = (
        info.architecture, info.block_count, info.embedding_length, info.feed_forward_length,
        info.head_count, info.head_count_kv, info.vocabulary_size, info.tokenizer_pre,
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _read_container(path: Path) -> MedusaHeads:
    metadata = read_header(path).metadata
    if metadata.get("general.architecture") != ARCHITECTURE:
        raise ModelFileError(f"{path.name} does not hold Medusa heads")
    tensors = read_tensors(path)
    ids = tensors.pop(_TOKEN_IDS, None)
    heads = _collect(path.name, tensors, may_share=ids is not None)
    token_ids, output = None, heads[0].output
    if ids is not None:
        if ids.dtype != "I64" or len(ids.shape) != 1 or (output and ids.shape != output.shape[:1]):
            raise ModelFileError(f"{path.name} is damaged: one token id per row is expected")
        token_ids = ids.raw.view("<i8").astype(np.int64)
    return MedusaHeads(
        heads,
        token_ids,
        str(metadata.get(f"{ARCHITECTURE}.target_hash", "")),
        str(metadata.get(f"{ARCHITECTURE}.base_model", "")),
    )


def _collect(
    file: str, tensors: Mapping[str, TensorData], may_share: bool = False
) -> tuple[MedusaHead, ...]:
    """Heads and blocks are counted from the keys: published configs state wrong numbers.

    may_share: the heads may have no rows of their own.
    """
    if any(key.startswith(_PREFIX) for key in tensors):
        tensors = {
            key.removeprefix(_PREFIX): value
            for key, value in tensors.items()
            if key.startswith(_PREFIX)
        }
    outputs: dict[int, tuple[int, TensorData | None]] = {}
    for key, tensor in tensors.items():
        if match := _OUTPUT_KEY.fullmatch(key):
            outputs[int(match["head"])] = (int(match["layer"]), tensor)
    if not outputs and may_share:
        for key in tensors:
            if match := _BLOCK_KEY.fullmatch(key):
                head, layer = int(match["head"]), int(match["layer"])
                outputs[head] = (max(layer + 1, outputs.get(head, (0, None))[0]), None)
    count = len(outputs)
    if not 1 <= count <= MAX_HEADS or sorted(outputs) != list(range(count)):
        raise ModelFileError(f"{file} does not hold Medusa heads")
    expected = {f"{head}.{layer}.weight" for head, (layer, rows) in outputs.items() if rows}
    expected |= {key for key in tensors if _BLOCK_KEY.fullmatch(key)}
    if unknown := sorted(set(tensors) - expected):
        raise ModelFileError(f"{file} holds {unknown[0][:80]!r}, which no Medusa head has")
    heads = tuple(_head(file, tensors, head, *outputs[head]) for head in range(count))
    if len({head.output.shape if head.output else head.blocks[0][0].shape for head in heads}) != 1:
        raise ModelFileError(f"{file} is damaged: its heads differ in size")
    return heads


def _head(
    file: str,
    tensors: Mapping[str, TensorData],
    number: int,
    blocks: int,
    output: TensorData | None,
) -> MedusaHead:
    first = tensors.get(f"{number}.0.linear.weight") if output is None else output
    if blocks > MAX_BLOCKS or first is None or len(first.shape) != 2:
        raise ModelFileError(f"{file}: head {number} has an impossible shape")
    hidden = first.shape[1]
    found = []
    for layer in range(blocks):
        weight = tensors.get(f"{number}.{layer}.linear.weight")
        bias = tensors.get(f"{number}.{layer}.linear.bias")
        if weight is None or bias is None:
            raise ModelFileError(f"{file} is incomplete: head {number} lacks block {layer}")
        if weight.shape != (hidden, hidden) or bias.shape != (hidden,) or bias.dtype not in FLOATS:
            raise ModelFileError(f"{file}: head {number} has an impossible shape")
        found.append((weight, bias))
    return MedusaHead(tuple(found), output)


def _base_model(config: Path) -> str:
    """From the config beside a checkpoint, which may be missing."""
    try:
        with config.open("rb") as file:
            content = parse_json(file.read(_MAX_CONFIG))
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ModelFileError(f"{config} cannot be read: {error.strerror or error}") from error
    except DocumentError as error:
        raise ModelFileError(f"{config} {error}") from error
    named = content.get("base_model_name_or_path") if isinstance(content, dict) else None
    return named if isinstance(named, str) else ""
