"""Published EAGLE-3 checkpoints to the GGUF files that llama.cpp runs.

Two layouts are in use: the authors' (`midlayer.*`) and the speculators library's (`layers.0.*`, a
nested config). Token ids become absolute, rows of q and k take llama.cpp's rotary order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import IncompatiblePairError, ModelFileError
from engine.data.shown import shown_name
from engine.files.checkpoint import Config, read_checkpoint
from engine.files.foreign_file import foreign_file
from engine.files.gguf import GgufInfo
from engine.files.gguf_data import MetadataValue, write_gguf
from engine.files.tensor_data import FLOATS, TensorData, as_f32, as_i64, as_q8_0
from engine.heads.pairing import Eagle3Info, eagle3_obstacle

_LAYER_PREFIXES = ("midlayer.", "layers.0.", "model.layers.0.")
_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "hidden_norm": "attn_norm_2",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_UNUSED = ("t2d", "embed_tokens.weight", "model.embed_tokens.weight")


@dataclass(frozen=True, slots=True)
class _Shape:
    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    layers: tuple[int, ...]
    target_hidden: int


def convert_eagle3(folder: Path, target: GgufInfo, destination: Path) -> None:
    """Writes a drafter for `target` with Q8_0 weights.

    Raises ModelFileError (not such a checkpoint) or IncompatiblePairError (another target's).
    """
    with foreign_file(folder):
        _convert(folder, target, destination)


def _convert(folder: Path, target: GgufInfo, destination: Path) -> None:
    values, tensors = read_checkpoint(folder)
    config = Config(values, str(folder / "config.json"))
    if config.integer("num_hidden_layers", 1) != 1 or config.flag("attention_bias"):
        raise ModelFileError(f"{folder.name} is not an EAGLE-3 drafter of one plain layer")
    shape = _shape(config, target)
    info = Eagle3Info(target, shape.layers, shape.target_hidden, target.vocabulary_size)
    if reason := eagle3_obstacle(target, info):
        raise IncompatiblePairError(f"{folder.name} cannot draft for {target.name}: {reason}")
    converted = _tensors(folder.name, tensors, shape, target.vocabulary_size)
    if shape.hidden != shape.target_hidden:
        converted["token_embd.weight"] = _own_embeddings(folder.name, tensors)
    if (factors := _rope_factors(config, shape.head_width)) is not None:
        converted["rope_freqs.weight"] = as_f32(factors)
    write_gguf(destination, _metadata(destination, config, shape, target), converted)


def _shape(config: Config, target: GgufInfo) -> _Shape:
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    layers = config.integers("eagle_aux_hidden_state_layer_ids")
    blocks = target.block_count
    return _Shape(
        hidden=hidden,
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_width=config.integer("head_dim", hidden // heads),
        layers=layers or (2, blocks // 2, blocks - 3),
        target_hidden=config.integer("target_hidden_size", target.embedding_length),
    )


def _metadata(
    destination: Path, config: Config, shape: _Shape, target: GgufInfo
) -> dict[str, MetadataValue]:
    rope = config.table("rope_parameters")
    base = config.number("rope_theta", 0.0) or (rope.number("rope_theta", 0.0) if rope else 0.0)
    return {
        "general.architecture": "eagle3",
        "general.name": shown_name(destination.stem),
        "general.file_type": 7,
        "eagle3.block_count": 1,
        "eagle3.context_length": config.integer("max_position_embeddings", 2048),
        "eagle3.embedding_length": shape.hidden,
        "eagle3.feed_forward_length": config.integer("intermediate_size"),
        "eagle3.attention.head_count": shape.heads,
        "eagle3.attention.head_count_kv": shape.kv_heads,
        "eagle3.attention.key_length": shape.head_width,
        "eagle3.attention.value_length": shape.head_width,
        "eagle3.attention.layer_norm_rms_epsilon": config.number("rms_norm_eps", 1e-5),
        "eagle3.rope.dimension_count": shape.head_width,
        "eagle3.rope.freq_base": base or 10_000.0,
        "eagle3.vocab_size": target.vocabulary_size,
        "eagle3.target_layers": list(shape.layers),
        "eagle3.target_hidden_size": shape.target_hidden,
        "eagle3.norm_before_residual": config.flag("norm_before_residual"),
        "eagle3.norm_before_fc": config.flag("norm_before_fc"),
        "tokenizer.ggml.model": "none",
    }


def _tensors(
    source: str, tensors: Mapping[str, TensorData], shape: _Shape, vocabulary: int
) -> dict[str, TensorData]:
    found: dict[str, TensorData] = {}
    for key, tensor in tensors.items():
        name = _name(key)
        if name is None:
            if key in _UNUSED or key == "d2t":
                continue
            raise ModelFileError(f"{source} holds {key[:80]!r}, which no EAGLE-3 drafter has")
        if tensor.dtype not in FLOATS:
            raise ModelFileError(f"{source}: {key[:80]!r} is not made of plain numbers")
        found[name] = _converted(name, tensor, shape)
    _check(source, found, shape)
    rows = found["output.weight"].shape[0]
    ids = _token_ids(source, tensors.get("d2t"), rows, vocabulary)
    if ids is not None:
        found["d2t"] = as_i64(ids)
    return found


def _name(key: str) -> str | None:
    whole = {
        "fc.weight": "fc.weight",
        "norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
        "input_norm.weight": "enc.output_norm.weight",
    }
    if key in whole:
        return whole[key]
    for prefix in _LAYER_PREFIXES:
        inner = key.removeprefix(prefix).removesuffix(".weight")
        if key.startswith(prefix) and inner in _LAYER_NAMES:
            return f"blk.0.{_LAYER_NAMES[inner]}.weight"
    return None


def _converted(name: str, tensor: TensorData, shape: _Shape) -> TensorData:
    values = tensor.floats()
    if len(tensor.shape) == 1:
        return as_f32(values[0])
    heads = {"blk.0.attn_q.weight": shape.heads, "blk.0.attn_k.weight": shape.kv_heads}.get(name)
    if heads is not None and len(values) == heads * shape.head_width:
        values = _interleaved(values, heads)
    return as_q8_0(values)


def _interleaved(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rotary pairs (i, i + width / 2) become neighbours, head by head."""
    halves = rows.reshape(heads, 2, -1, rows.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)


def _check(source: str, found: Mapping[str, TensorData], shape: _Shape) -> None:
    hidden, queries = shape.hidden, shape.heads * shape.head_width
    keys = shape.kv_heads * shape.head_width
    expected = {
        "fc.weight": (hidden, 3 * shape.target_hidden),
        "output_norm.weight": (hidden,),
        "blk.0.attn_norm.weight": (hidden,),
        "blk.0.attn_norm_2.weight": (hidden,),
        "blk.0.ffn_norm.weight": (hidden,),
        "blk.0.attn_q.weight": (queries, 2 * hidden),
        "blk.0.attn_k.weight": (keys, 2 * hidden),
        "blk.0.attn_v.weight": (keys, 2 * hidden),
        "blk.0.attn_output.weight": (hidden, queries),
    }
    for name in (*expected, *(f"blk.0.ffn_{part}.weight" for part in ("gate", "up", "down"))):
        if name not in found:
            raise ModelFileError(f"{source} is not an EAGLE-3 drafter: it lacks {name}")
        if name in expected and found[name].shape != expected[name]:
            raise ModelFileError(f"{source}: {name} is {found[name].shape}, not {expected[name]}")
    if "output.weight" not in found or found["output.weight"].shape[1] != hidden:
        raise ModelFileError(f"{source} is not an EAGLE-3 drafter: it has no output head")


def _token_ids(
    source: str, offsets: TensorData | None, rows: int, vocabulary: int
) -> NDArray[np.int64] | None:
    """Absolute target ids of the head's rows; None when row i is token i of all of them."""
    if offsets is None:
        if rows != vocabulary:
            raise ModelFileError(f"{source} predicts {rows:,} tokens and does not say which")
        return None
    if offsets.dtype != "I64" or offsets.shape != (rows,):
        raise ModelFileError(f"{source}: d2t does not hold one offset per row")
    ids = np.arange(rows) + offsets.raw.view("<i8").astype(np.int64)
    if ids.min() < 0 or ids.max() >= vocabulary or len(np.unique(ids)) != rows:
        raise IncompatiblePairError(f"{source} names tokens that the target does not have")
    return ids


def _own_embeddings(source: str, tensors: Mapping[str, TensorData]) -> TensorData:
    for key in ("embed_tokens.weight", "model.embed_tokens.weight"):
        if key in tensors:
            return as_q8_0(tensors[key].floats())
    raise ModelFileError(f"{source} needs token embeddings of its own width and has none")


def _rope_factors(config: Config, width: int) -> NDArray[np.float32] | None:
    """Llama 3's stretched rotary frequencies: long waves by `factor`, short ones not at all."""
    scaling = config.table("rope_scaling") or config.table("rope_parameters")
    if scaling is None or (scaling.text("rope_type") or scaling.text("type")) != "llama3":
        return None
    base = config.number("rope_theta", 0.0) or scaling.number("rope_theta", 10_000.0)
    waves = 2.0 * math.pi * base ** (np.arange(0, width, 2) / width)
    turns = scaling.number("original_max_position_embeddings", 8192.0) / waves
    low, high = scaling.number("low_freq_factor", 1.0), scaling.number("high_freq_factor", 4.0)
    factor = scaling.number("factor", 8.0)
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - smooth) / factor + smooth)).astype(np.float32)
