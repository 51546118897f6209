"""A tiny model with an MTP layer: glm4moe, random weights, the vocabulary of tests.tiny_gguf."""

from __future__ import annotations

import math
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.tiny_gguf import CONTROL_TOKENS, MERGES, TinyModel

HIDDEN, HEADS, KV_HEADS, FEED_FORWARD, EXPERTS = 64, 4, 2, 96, 2
SPOKEN = 8
LAYERS = 3
"""Of the trunk; the MTP layer comes after them."""


def write_mtp_gguf(path: Path, seed: int = 0, nextn: int = 1) -> Path:
    """nextn: number of MTP layers, 0 for none.

    The head knows few tokens, so that the MTP layer is right now and then.
    """
    texts, types = TinyModel().vocabulary()
    writer = gguf.GGUFWriter(path, "glm4moe")
    writer.add_name("Tiny MTP")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS + nextn)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HIDDEN // HEADS)
    writer.add_value_length(HIDDEN // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(texts))
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(1)
    writer.add_expert_shared_count(1)
    writer.add_leading_dense_block_count(1)
    writer.add_expert_feed_forward_length(32)
    writer.add_uint32("glm4moe.nextn_predict_layers", nextn)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(texts)
    writer.add_token_types(types)
    writer.add_token_merges(list(MERGES))
    writer.add_eos_token_id(texts.index(CONTROL_TOKENS[0]))
    writer.add_add_bos_token(False)
    for name, weights in _tensors(len(texts), seed, nextn).items():
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(vocabulary: int, seed: int, nextn: int) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(seed)

    def matrix(*shape: int) -> NDArray[np.float32]:
        values = random.standard_normal(shape) / math.sqrt(shape[-1])
        return values.astype(np.float32)

    ones = np.ones(HIDDEN, np.float32)
    width = HIDDEN // HEADS
    found = {
        "token_embd.weight": matrix(vocabulary, HIDDEN) * 8,
        "output_norm.weight": ones,
        "output.weight": matrix(vocabulary, HIDDEN) * 3,
    }
    found["output.weight"][SPOKEN:] = 0.0
    for layer in range(LAYERS + nextn):
        block = f"blk.{layer}."
        found |= {
            block + "attn_norm.weight": ones,
            block + "attn_q.weight": matrix(HIDDEN, HIDDEN),
            block + "attn_k.weight": matrix(KV_HEADS * width, HIDDEN),
            block + "attn_v.weight": matrix(KV_HEADS * width, HIDDEN),
            block + "attn_output.weight": matrix(HIDDEN, HIDDEN),
            block + "post_attention_norm.weight": ones,
        }
        if layer == 0:
            for part, shape in (("gate", 0), ("up", 0), ("down", 1)):
                size = (HIDDEN, FEED_FORWARD) if shape else (FEED_FORWARD, HIDDEN)
                found[f"{block}ffn_{part}.weight"] = matrix(*size)
            continue
        found[block + "ffn_gate_inp.weight"] = matrix(EXPERTS, HIDDEN)
        found[block + "exp_probs_b.bias"] = np.zeros(EXPERTS, np.float32)
        for part in ("gate", "up"):
            found[f"{block}ffn_{part}_exps.weight"] = matrix(EXPERTS, 32, HIDDEN)
            found[f"{block}ffn_{part}_shexp.weight"] = matrix(32, HIDDEN)
        found[block + "ffn_down_exps.weight"] = matrix(EXPERTS, HIDDEN, 32)
        found[block + "ffn_down_shexp.weight"] = matrix(HIDDEN, 32)
        if layer >= LAYERS:
            found[block + "nextn.eh_proj.weight"] = matrix(HIDDEN, 2 * HIDDEN)
            found[block + "nextn.enorm.weight"] = ones
            found[block + "nextn.hnorm.weight"] = ones
            found[block + "nextn.shared_head_norm.weight"] = ones
    return found
