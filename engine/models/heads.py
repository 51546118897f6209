"""Do these heads belong to this target? Everything that can be known before weights are read."""

from __future__ import annotations

from pathlib import Path

from engine.errors import IncompatiblePairError
from engine.models.gguf import GgufInfo, inspect
from engine.models.medusa_file import MedusaHeads, read_medusa, target_hash


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
    return heads
