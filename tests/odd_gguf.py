"""Tiny targets whose caches are not plain: a sliding window, a recurrent state, and both kinds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.tiny_gguf import CONTROL_TOKENS, MERGES, TinyModel

HIDDEN, HEADS, KV_HEADS, FEED_FORWARD, LAYERS = 64, 4, 2, 96, 4
WINDOW, STATE, INNER, RANK, KERNEL = 16, 8, 128, 4, 4

DELTA_STATE, DELTA_GROUPS = 16, 2

Tensors = dict[str, NDArray[np.float32]]
Matrix = Callable[[int, int], NDArray[np.float32]]


def write_sliding(path: Path) -> Path:
    """gemma2: every other layer sees the last WINDOW tokens."""
    writer = _writer(path, "gemma2")
    writer.add_sliding_window(WINDOW)
    writer.add_head_count_kv(KV_HEADS)
    return _finished(path, writer, [_attention(post=True)] * LAYERS, "output_norm")


def write_recurrent(path: Path) -> Path:
    """mamba: nothing but a recurrent state."""
    writer = _writer(path, "mamba")
    writer.add_ssm_conv_kernel(KERNEL)
    writer.add_ssm_inner_size(INNER)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_time_step_rank(RANK)
    return _finished(path, writer, [_mamba] * LAYERS, "output_norm")


def write_hybrid(path: Path, chat_template: str = "") -> Path:
    """lfm2: short convolutions with a state that can go back, and attention."""
    writer = _writer(path, "lfm2")
    if chat_template:
        writer.add_chat_template(chat_template)
    kinds = [_convolution if layer % 2 == 0 else _attention(norms=True) for layer in range(LAYERS)]
    writer.add_head_count_kv([0 if kind is _convolution else KV_HEADS for kind in kinds])
    writer.add_shortconv_l_cache(3)
    return _finished(path, writer, kinds, "token_embd_norm")


def write_interval(path: Path, listed: bool = False) -> Path:
    """qwen35: every other layer attends, the others keep a state; KV heads stand for all of them.

    listed: the file names its recurrent layers one by one instead of giving the interval.
    """
    writer = _writer(path, "qwen35")
    writer.add_head_count_kv(KV_HEADS)
    writer.add_ssm_conv_kernel(KERNEL)
    writer.add_ssm_inner_size(DELTA_STATE * RANK)
    writer.add_ssm_state_size(DELTA_STATE)
    writer.add_ssm_time_step_rank(RANK)
    writer.add_ssm_group_count(DELTA_GROUPS)
    writer.add_rope_dimension_sections([4, 2, 2, 0])
    if listed:
        writer.add_array(
            "qwen35.attention.recurrent_layers", [layer % 2 == 0 for layer in range(LAYERS)]
        )
    else:
        writer.add_uint32("qwen35.full_attention_interval", 2)
    kinds = [_delta if layer % 2 == 0 else _gated_attention for layer in range(LAYERS)]
    return _finished(path, writer, kinds, "output_norm")


def _writer(path: Path, architecture: str) -> gguf.GGUFWriter:
    texts, types = TinyModel().vocabulary()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"Tiny {architecture}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_key_length(HIDDEN // HEADS)
    writer.add_value_length(HIDDEN // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(texts))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(texts)
    writer.add_token_types(types)
    writer.add_token_merges(list(MERGES))
    writer.add_bos_token_id(texts.index(CONTROL_TOKENS[0]))
    writer.add_eos_token_id(texts.index(CONTROL_TOKENS[0]))
    writer.add_add_bos_token(False)
    return writer


def _finished(
    path: Path, writer: gguf.GGUFWriter, layers: Sequence[Callable[[Matrix], Tensors]], norm: str
) -> Path:
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return (random.standard_normal((rows, columns)) / math.sqrt(columns)).astype(np.float32)

    vocabulary = len(TinyModel().vocabulary()[0])
    writer.add_tensor("token_embd.weight", matrix(vocabulary, HIDDEN))
    for layer, kind in enumerate(layers):
        for name, weights in kind(matrix).items():
            writer.add_tensor(f"blk.{layer}.{name}", weights)
    writer.add_tensor(f"{norm}.weight", np.ones(HIDDEN, np.float32))
    if writer.arch != "gemma2":  # whose head is its embeddings
        writer.add_tensor("output.weight", 3.0 * matrix(vocabulary, HIDDEN))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _feed_forward(matrix: Matrix) -> Tensors:
    return {
        "ffn_norm.weight": np.ones(HIDDEN, np.float32),
        "ffn_gate.weight": matrix(FEED_FORWARD, HIDDEN),
        "ffn_up.weight": matrix(FEED_FORWARD, HIDDEN),
        "ffn_down.weight": matrix(HIDDEN, FEED_FORWARD),
    }


def _attention(post: bool = False, norms: bool = False) -> Callable[[Matrix], Tensors]:
    width = HIDDEN // HEADS

    def tensors(matrix: Matrix) -> Tensors:
        found = {
            "attn_norm.weight": np.ones(HIDDEN, np.float32),
            "attn_q.weight": matrix(HIDDEN, HIDDEN),
            "attn_k.weight": matrix(KV_HEADS * width, HIDDEN),
            "attn_v.weight": matrix(KV_HEADS * width, HIDDEN),
            "attn_output.weight": matrix(HIDDEN, HIDDEN),
            **_feed_forward(matrix),
        }
        if norms:
            found["attn_q_norm.weight"] = np.ones(width, np.float32)
            found["attn_k_norm.weight"] = np.ones(width, np.float32)
        if post:
            found["post_attention_norm.weight"] = np.ones(HIDDEN, np.float32)
            found["post_ffw_norm.weight"] = np.ones(HIDDEN, np.float32)
        return found

    return tensors


def _convolution(matrix: Matrix) -> Tensors:
    return {
        "attn_norm.weight": np.ones(HIDDEN, np.float32),
        "shortconv.conv.weight": matrix(HIDDEN, 3),
        "shortconv.in_proj.weight": matrix(3 * HIDDEN, HIDDEN),
        "shortconv.out_proj.weight": matrix(HIDDEN, HIDDEN),
        **_feed_forward(matrix),
    }


def _mamba(matrix: Matrix) -> Tensors:
    return {
        "attn_norm.weight": np.ones(HIDDEN, np.float32),
        "ssm_in.weight": matrix(2 * INNER, HIDDEN),
        "ssm_conv1d.weight": matrix(INNER, KERNEL),
        "ssm_conv1d.bias": np.zeros(INNER, np.float32),
        "ssm_x.weight": matrix(RANK + 2 * STATE, INNER),
        "ssm_dt.weight": matrix(INNER, RANK),
        "ssm_dt.bias": np.zeros(INNER, np.float32),
        "ssm_a": -np.tile(np.arange(1, STATE + 1, dtype=np.float32), (INNER, 1)),
        "ssm_d": np.ones(INNER, np.float32),
        "ssm_out.weight": matrix(HIDDEN, INNER),
    }


def _gated_attention(matrix: Matrix) -> Tensors:
    tensors = _attention(norms=True)(matrix)
    norm = tensors.pop("ffn_norm.weight")
    gated = {"attn_q.weight": matrix(2 * HIDDEN, HIDDEN), "post_attention_norm.weight": norm}
    return tensors | gated


def _delta(matrix: Matrix) -> Tensors:
    keys, values = DELTA_STATE * DELTA_GROUPS, DELTA_STATE * RANK
    tensors = {
        "attn_norm.weight": np.ones(HIDDEN, np.float32),
        "attn_qkv.weight": matrix(2 * keys + values, HIDDEN),
        "attn_gate.weight": matrix(values, HIDDEN),
        "ssm_conv1d.weight": matrix(2 * keys + values, KERNEL),
        "ssm_dt.bias": np.zeros(RANK, np.float32),
        "ssm_a": -np.ones(RANK, np.float32),
        "ssm_beta.weight": matrix(RANK, HIDDEN),
        "ssm_alpha.weight": matrix(RANK, HIDDEN),
        "ssm_norm.weight": np.ones(DELTA_STATE, np.float32),
        "ssm_out.weight": matrix(HIDDEN, values),
        **_feed_forward(matrix),
    }
    tensors["post_attention_norm.weight"] = tensors.pop("ffn_norm.weight")
    return tensors
