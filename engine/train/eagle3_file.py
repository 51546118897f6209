"""Writes an EAGLE-3 drafter: the GGUF that llama.cpp runs, and the published safetensors layout.

Without a head of its own the file is small and llama.cpp uses the target's whole head; the list of
draft tokens is kept in the metadata, so that the rows can be added from the target later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.data.shown import shown_name
from engine.files.disk import write_atomically
from engine.files.gguf_data import MetadataValue, write_gguf
from engine.files.safetensors_file import write_safetensors
from engine.heads.eagle3_rows import DRAFT_TOKENS, head_tensors
from engine.heads.medusa_file import target_hash
from engine.heads.pairing import TARGET_HASH
from engine.train.encoded import encoded
from engine.train.target_weights import LayerShape, TargetWeights

_FILE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 7, "Q4_0": 2}
_PUBLISHED = {
    "fc": "fc",
    "blk.0.attn_norm": "midlayer.input_layernorm",
    "blk.0.attn_norm_2": "midlayer.hidden_norm",
    "blk.0.attn_q": "midlayer.self_attn.q_proj",
    "blk.0.attn_k": "midlayer.self_attn.k_proj",
    "blk.0.attn_v": "midlayer.self_attn.v_proj",
    "blk.0.attn_output": "midlayer.self_attn.o_proj",
    "blk.0.ffn_norm": "midlayer.post_attention_layernorm",
    "blk.0.ffn_gate": "midlayer.mlp.gate_proj",
    "blk.0.ffn_up": "midlayer.mlp.up_proj",
    "blk.0.ffn_down": "midlayer.mlp.down_proj",
    "output_norm": "norm",
}
"""Our names, which are llama.cpp's, to those of published checkpoints."""


@dataclass(frozen=True, slots=True)
class Eagle3Weights:
    """layer: by llama.cpp's names. token_ids: target ids of the head's rows, ascending.

    layers: of the target, whose inputs are read.
    """

    layer: Mapping[str, NDArray[np.float32]]
    token_ids: NDArray[np.int64]
    layers: tuple[int, int, int]


def write_eagle3(
    path: Path, weights: Eagle3Weights, target: TargetWeights, dtype: str, *, own_head: bool
) -> None:
    """dtype: of the matrices. own_head: with the target's rows for the draft tokens, as stored.

    Raises ModelFileError when the disk refuses.
    """
    metadata = _metadata(path, weights, target, dtype)
    tensors = {name: encoded(values, dtype) for name, values in weights.layer.items()}
    if own_head:
        tensors |= head_tensors(target.head_data(), weights.token_ids)
    else:
        metadata[DRAFT_TOKENS] = weights.token_ids.tolist()
    write_gguf(path, metadata, tensors)


def write_published(folder: Path, weights: Eagle3Weights, target: TargetWeights) -> None:
    """model.safetensors and config.json as the authors' code reads them, in half precision."""
    shape = target.shape
    tensors: dict[str, NDArray[np.generic]] = {}
    for name, values in weights.layer.items():
        stem = name.removesuffix(".weight")
        if stem in ("blk.0.attn_q", "blk.0.attn_k"):
            values = _half_rotation(values, shape)
        tensors[f"{_PUBLISHED[stem]}.weight"] = values.astype(np.float16)
    tensors["lm_head.weight"] = target.head_rows(weights.token_ids).astype(np.float16)
    tensors["d2t"] = weights.token_ids - np.arange(len(weights.token_ids))
    known = np.zeros(target.vocabulary, bool)
    known[weights.token_ids] = True
    tensors["t2d"] = known
    write_safetensors(folder / "model.safetensors", tensors)
    write_atomically(folder / "config.json", json.dumps(_config(weights, target), indent=2) + "\n")


def _config(weights: Eagle3Weights, target: TargetWeights) -> dict[str, object]:
    shape = target.shape
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_size": shape.hidden,
        "target_hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.rope_base,
        "hidden_act": "silu",
        "max_position_embeddings": target.info.context_length,
        "vocab_size": target.vocabulary,
        "draft_vocab_size": len(weights.token_ids),
        "eagle_aux_hidden_state_layer_ids": list(weights.layers),
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
    }


def _metadata(
    path: Path, weights: Eagle3Weights, target: TargetWeights, dtype: str
) -> dict[str, MetadataValue]:
    shape = target.shape
    return {
        "general.architecture": "eagle3",
        "general.name": shown_name(path.stem),
        "general.file_type": _FILE_TYPES[dtype],
        "eagle3.block_count": 1,
        "eagle3.context_length": target.info.context_length,
        "eagle3.embedding_length": shape.hidden,
        "eagle3.feed_forward_length": shape.feed_forward,
        "eagle3.attention.head_count": shape.heads,
        "eagle3.attention.head_count_kv": shape.kv_heads,
        "eagle3.attention.key_length": shape.head_width,
        "eagle3.attention.value_length": shape.head_width,
        "eagle3.attention.layer_norm_rms_epsilon": shape.epsilon,
        "eagle3.rope.dimension_count": shape.head_width,
        "eagle3.rope.freq_base": shape.rope_base,
        "eagle3.vocab_size": target.vocabulary,
        "eagle3.target_layers": list(weights.layers),
        "eagle3.target_hidden_size": shape.hidden,
        "tokenizer.ggml.model": "none",
        TARGET_HASH: target_hash(target.info),
    }


def _half_rotation(rows: NDArray[np.float32], shape: LayerShape) -> NDArray[np.float32]:
    """q or k rows for rotary positions over the halves of a head, as published files have them."""
    pairs = rows.reshape(-1, shape.head_width // 2, 2, rows.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)
