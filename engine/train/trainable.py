"""Which drafters can be learned from a target, by its file alone and before anything is collected.

Medusa heads read the final hidden state, which every model has. An EAGLE-3 layer starts as a copy
of the target's last one, and an early exit runs as the target's own architecture does.
"""

from __future__ import annotations

from pathlib import Path

from engine.data.errors import IncompatiblePairError
from engine.files.gguf import GgufInfo, inspect
from engine.files.gguf_data import read_tensors
from engine.files.gguf_header import read_header
from engine.train.training import HeadKind

LAYER_MATRICES = (
    "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down",
)  # fmt: skip
LAYER_NORMS = ("attn_norm", "ffn_norm")
_COPIED = ("llama", "qwen2", "qwen3")
_IMITATED = ("llama", "qwen2")


def require_target(path: Path) -> None:
    """IncompatiblePairError for files from which no drafter can learn."""
    info = inspect(path)
    reason = info.needs
    if info.recurrent:
        reason = "a recurrent model, for which nothing can draft"
    elif info.is_split:
        reason = "one part of several; join them with llama.cpp's `llama-gguf-split --merge` first"
    if reason is not None:
        raise IncompatiblePairError(f"{path.name} cannot be trained for: it is {reason}")


def require_trainable(kind: HeadKind, path: Path) -> None:
    """IncompatiblePairError for targets from which a drafter of that kind cannot learn."""
    require_target(path)
    reason = obstacle(kind, path)
    if reason:
        raise IncompatiblePairError(
            f"{path.name} cannot be trained for {kind}: {reason}; Medusa heads can be"
        )


def obstacle(kind: HeadKind, path: Path) -> str:
    """Why a drafter of that kind cannot learn from this target, "" when it can."""
    if kind == "medusa":
        return ""
    info = inspect(path)
    wanted = _COPIED if kind == "eagle3" else _IMITATED
    if info.architecture not in wanted:
        return f"its architecture is {info.architecture}, not {', '.join(wanted)}"
    if not len(set(info.head_count)) == len(set(info.head_count_kv)) == 1:
        return "its layers differ in their heads"
    last, tensors = f"blk.{info.block_count - 1}.", read_tensors(path)
    if any(f"{last}{name}.weight" not in tensors for name in (*LAYER_MATRICES, *LAYER_NORMS)):
        return "its layers have experts, or other parts than usual"
    return _unlike(info, "rope_freqs.weight" in tensors) if kind == "early-exit" else ""


def _unlike(info: GgufInfo, scaled: bool) -> str:
    """What a cut model in training would do otherwise than in llama.cpp, "" for nothing."""
    metadata, name = read_header(Path(info.path)).metadata, info.architecture
    if scaled or metadata.get(f"{name}.rope.scaling.factor"):
        return "its rotary positions are scaled"
    if metadata.get(f"{name}.rope.dimension_count", info.key_length) != info.key_length:
        return "only parts of its heads are rotated"
    return "its attention has a window" if info.sliding_window else ""
