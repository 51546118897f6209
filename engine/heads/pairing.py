"""Do these heads belong to this target? Everything that can be known before weights are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.data.errors import IncompatiblePairError, ModelFileError
from engine.files.file_key import FileKey, file_key
from engine.files.gguf import GgufInfo, inspect
from engine.files.gguf_data import read_tensors
from engine.files.gguf_header import Header, read_header
from engine.files.tensor_data import TensorData
from engine.heads.eagle_file import EagleLayer, read_eagle
from engine.heads.medusa_file import MedusaHeads, read_medusa, target_hash

TARGET_HASH = "forerun.target_hash"
"""Metadata key of EAGLE-3 files made here: the model they were trained for."""
HEAD_KINDS = {"EAGLE-3": "eagle3", "Medusa": "medusa"}
"""What a file needs (GgufInfo.needs) to the kind of drafter expression that runs it."""


def heads_obstacle(target: Path, heads: Path) -> str:
    """Why the heads in a GGUF file cannot draft for a target, "" if they can.

    Remembered until either file changes. ModelFileError when one of them cannot be read.
    """
    return _heads_obstacle(file_key(target), file_key(heads))


@lru_cache(maxsize=256)
def _heads_obstacle(target_key: FileKey, heads_key: FileKey) -> str:
    heads = heads_key.path
    ours, theirs = inspect(target_key.path), inspect(heads)
    if ours.needs is not None:
        return f"the target needs {ours.needs}"
    if theirs.needs == "EAGLE-3":
        return eagle3_obstacle(ours, read_eagle3(heads))
    if theirs.needs == "Medusa":
        return medusa_obstacle(ours, read_medusa(heads))
    return "not heads of another model"


def medusa_obstacle(target: GgufInfo, heads: MedusaHeads) -> str:
    """Why Medusa heads cannot draft for the target, "" if they can."""
    if heads.hidden_size != target.embedding_length:
        return f"made for a hidden size of {heads.hidden_size}, not {target.embedding_length}"
    vocabulary = target.vocabulary_size
    if heads.token_ids is None and heads.rows != vocabulary:
        return f"made for a vocabulary of {heads.rows:,} tokens, not {vocabulary:,}"
    if heads.token_ids is not None:
        if heads.token_ids.min() < 0 or heads.token_ids.max() >= vocabulary:
            return f"names tokens outside the vocabulary of {vocabulary:,}"
    if heads.target_hash and heads.target_hash != target_hash(target):
        return "made for another model"
    return ""


def require_medusa(target: Path, heads_path: Path) -> MedusaHeads:
    """Raises IncompatiblePairError or ModelFileError."""
    heads = read_medusa(heads_path)
    if reason := medusa_obstacle(inspect(target), heads):
        raise IncompatiblePairError(
            f"the heads in {heads_path.name} cannot draft for {target.name}: {reason}"
        )
    return heads.with_rows(target_ends(target)[1]) if heads.shares_rows else heads


GRAPH_ALIGNMENT = 32
"""In bytes, of mapped weights that tensor graphs read in place; the usual one of GGUF files."""


@dataclass(frozen=True, slots=True)
class Eagle3Info:
    """layers: of the target, whose inputs the drafter reads, in its order.

    target_hash: see engine.heads.medusa_file, "" if not known.
    """

    info: GgufInfo
    layers: tuple[int, ...]
    target_hidden_size: int
    vocabulary_size: int
    target_hash: str = ""


def read_eagle3(path: Path) -> Eagle3Info:
    """Raises ModelFileError when the file is damaged or no EAGLE-3 drafter."""
    info, header = inspect(path), read_header(path)
    if info.architecture != "eagle3":
        raise ModelFileError(f"{path.name} is not an EAGLE-3 drafter")
    layers = header.metadata.get("eagle3.target_layers")
    hidden = header.metadata.get("eagle3.target_hidden_size")
    if not isinstance(layers, tuple) or len(layers) != 3 or not isinstance(hidden, int):
        raise ModelFileError(f"{path.name} does not say which layers of the target it reads")
    if not all(isinstance(layer, int) for layer in layers):
        raise ModelFileError(f"{path.name} does not say which layers of the target it reads")
    numbers = tuple(int(layer) for layer in layers)
    made_for = str(header.metadata.get(TARGET_HASH, ""))
    return Eagle3Info(info, numbers, hidden, _drafted_vocabulary(info, header), made_for)


def _drafted_vocabulary(info: GgufInfo, header: Header) -> int:
    """Size of the target vocabulary that the drafter's tokens are ids of."""
    stated = header.metadata.get("eagle3.vocab_size")
    return stated if isinstance(stated, int) and stated else info.vocabulary_size


def eagle3_obstacle(target: GgufInfo, heads: Eagle3Info) -> str:
    """Why an EAGLE-3 drafter cannot draft for the target, "" if it can."""
    if heads.target_hidden_size != target.embedding_length:
        sizes = f"{heads.target_hidden_size}, not {target.embedding_length}"
        return f"made for a hidden size of {sizes}"
    if heads.vocabulary_size != target.vocabulary_size:
        sizes = f"{heads.vocabulary_size:,} tokens, not {target.vocabulary_size:,}"
        return f"made for a vocabulary of {sizes}"
    if any(not 1 <= layer < target.block_count for layer in heads.layers):
        read = ", ".join(map(str, heads.layers))
        return f"reads layers {read} of a target that has {target.block_count}"
    if heads.target_hash and heads.target_hash != target_hash(target):
        return "made for another model"
    return ""


MTP_ARCHITECTURES = frozenset(
    {"bailingmoe3", "cohere2moe", "deepseek2", "glm4moe", "hy_v3", "mimo2", "qwen35", "qwen35moe"}
)
"""Whose MTP layers llama.cpp runs on their own."""


def mtp_obstacle(target: GgufInfo) -> str:
    """Why a model cannot draft for itself with its MTP layer, "" if it can."""
    if target.nextn_layers == 0:
        return "the model has no MTP layer"
    if target.architecture not in MTP_ARCHITECTURES:
        return f"llama.cpp does not run the MTP layers of {target.architecture} models"
    return "" if target.nextn_layers == 1 else "models with several MTP layers cannot be used yet"


def require_mtp(target: GgufInfo) -> None:
    if reason := mtp_obstacle(target):
        raise IncompatiblePairError(f"mtp cannot draft for {target.name}: {reason}")


def require_eagle3(target: Path, heads_path: Path) -> Eagle3Info:
    """Raises IncompatiblePairError or ModelFileError."""
    heads = read_eagle3(heads_path)
    if reason := eagle3_obstacle(inspect(target), heads):
        raise IncompatiblePairError(f"{heads_path.name} cannot draft for {target.name}: {reason}")
    return heads


def eagle_obstacle(target: GgufInfo, layer: EagleLayer) -> str:
    """Why an EAGLE-1 or EAGLE-2 layer cannot draft for the target, "" if it can."""
    shape = layer.shape
    if shape.hidden != target.embedding_length:
        return f"made for a hidden size of {shape.hidden}, not {target.embedding_length}"
    if shape.vocabulary != target.vocabulary_size:
        sizes = f"{shape.vocabulary:,} tokens, not {target.vocabulary_size:,}"
        return f"made for a vocabulary of {sizes}"
    return "its target is split into several files" if target.is_split else ""


def require_eagle(target: Path, layer_path: Path) -> EagleLayer:
    """Raises IncompatiblePairError or ModelFileError."""
    layer = read_eagle(layer_path)
    if reason := eagle_obstacle(inspect(target), layer):
        raise IncompatiblePairError(f"{layer_path.name} cannot draft for {target.name}: {reason}")
    return layer


def target_ends(target: Path) -> tuple[TensorData, TensorData]:
    """Embeddings and output matrix [vocabulary, hidden], as they lie in the file; often the same.

    Raises IncompatiblePairError where a target has no such matrices.
    """
    tensors = read_tensors(target)
    embeddings = tensors.get("token_embd.weight")
    output = tensors.get("output.weight", embeddings)
    if embeddings is None or output is None or embeddings.shape != output.shape:
        raise IncompatiblePairError(f"{target.name} has no output matrix that a drafter can use")
    if any(one.raw.ctypes.data % GRAPH_ALIGNMENT for one in (embeddings, output)):
        raise IncompatiblePairError(
            f"the output matrix of {target.name} does not lie where it could be read from; "
            "write the file with an alignment of 32 bytes"
        )
    return embeddings, output
