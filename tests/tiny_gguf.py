"""Writes small but complete llama-architecture GGUF files that llama.cpp loads in milliseconds.

The vocabulary is byte-level BPE: 256 byte tokens, a few merges, control tokens, padding. The
weights are random but seeded; `noise` gives a relative of the same model, a plausible drafter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

import gguf
import numpy as np
from numpy.typing import NDArray

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = (
    "h e", "i n", "t he", "Ġ the", "Ġ a", "a n", "o r", "e r", "r e", "o n", "Ġ w", "s t",
    "l l", "e ll", "h ell", "hell o", "Ġ o", "Ġ f", "a t", "e n", "e d", "i s", "i t", "a l",
)  # fmt: skip

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6
PIECES = ("▁", "t", "h", "e", "a", "n", "th", "the", "▁the", "an", "▁an", "<", "|", ">", "▁a", "\n")


@dataclass(frozen=True)
class TinyModel:
    """What to write. vocabulary_size: padded up to this (0: no padding).

    tokenizer: "bpe", "sentencepiece" (which begins texts with <s> and a space) or "none".

    tokens: replaces the normal tokens (byte tokens and merges). noise: standard deviation, relative
    to the weights', of what is added to the weights of the same seed. ends_texts: the file asks for
    an end-of-text token behind every text.
    """

    seed: int = 0
    layers: int = 2
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 128
    context: int = 256
    vocabulary_size: int = 0
    tokens: Sequence[str] = ()
    control_tokens: Sequence[str] = CONTROL_TOKENS
    chat_template: str | None = CHATML
    architecture: str = "llama"
    name: str = "Tiny"
    ends_texts: bool = False
    tokenizer: str = "bpe"
    noise: float = 0.0
    sharpness: float = 3.0

    def vocabulary(self) -> tuple[list[str], list[int]]:
        """Texts and types of all tokens: normal ones, control tokens, padding."""
        if self.tokenizer == "sentencepiece":
            byte_names = [f"<0x{byte:02X}>" for byte in range(256)]
            texts = ["<unk>", "<s>", "</s>", *byte_names, *PIECES, *self.control_tokens]
            types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(PIECES)
            return texts, types + [CONTROL] * len(self.control_tokens)
        normal = list(self.tokens) or [*_byte_tokens(), *(m.replace(" ", "") for m in MERGES)]
        texts = [*normal, *self.control_tokens]
        types = [NORMAL] * len(normal) + [CONTROL] * len(self.control_tokens)
        padding = range(len(texts), self.vocabulary_size)
        return texts + [f"[PAD{i}]" for i in padding], types + [UNUSED] * len(padding)


class TinyChanges(TypedDict, total=False):
    """The fields of TinyModel, as keyword arguments."""

    seed: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed_forward: int
    context: int
    vocabulary_size: int
    tokens: Sequence[str]
    control_tokens: Sequence[str]
    chat_template: str | None
    architecture: str
    name: str
    ends_texts: bool
    tokenizer: str
    noise: float
    sharpness: float


def write_tiny_gguf(
    path: Path, model: TinyModel | None = None, **changes: Unpack[TinyChanges]
) -> Path:
    """Write the file and return its path."""
    model = replace(model or TinyModel(), **changes)
    texts, types = model.vocabulary()
    writer = gguf.GGUFWriter(path, model.architecture)
    _write_shape(writer, model, len(texts))
    _write_vocabulary(writer, model, texts, types)
    for name, weights in _tensors(model, len(texts)):
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_shape(writer: gguf.GGUFWriter, model: TinyModel, vocabulary: int) -> None:
    writer.add_name(model.name)
    writer.add_type("model")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(model.context)
    writer.add_embedding_length(model.hidden)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.feed_forward)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(model.hidden // model.heads)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(vocabulary)


def _write_vocabulary(
    writer: gguf.GGUFWriter, model: TinyModel, texts: list[str], types: list[int]
) -> None:
    if model.tokenizer == "none":
        writer.add_tokenizer_model("none")
        return
    writer.add_token_list(texts)
    writer.add_token_types(types)
    if model.tokenizer == "sentencepiece":
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([float(len(text)) for text in texts])
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_merges(list(MERGES))
    specials = {text: texts.index(text) for text in model.control_tokens}
    if "<|endoftext|>" in specials and model.tokenizer == "bpe":
        writer.add_bos_token_id(specials["<|endoftext|>"])
        writer.add_eos_token_id(specials["<|endoftext|>"])
    if "<|im_end|>" in specials:
        writer.add_eot_token_id(specials["<|im_end|>"])
    writer.add_add_bos_token(model.tokenizer == "sentencepiece")
    writer.add_add_eos_token(model.ends_texts)
    if model.chat_template is not None:
        writer.add_chat_template(model.chat_template)


def _tensors(model: TinyModel, vocabulary: int) -> list[tuple[str, NDArray[np.float32]]]:
    base = np.random.default_rng(model.seed)
    noise = np.random.default_rng(model.seed + 1)
    width, key_width = model.hidden, model.hidden // model.heads * model.kv_heads

    def matrix(rows: int, columns: int, scale: float = 1.0) -> NDArray[np.float32]:
        weights = base.standard_normal((rows, columns))
        weights += model.noise * noise.standard_normal((rows, columns))
        return (scale * weights / math.sqrt(columns)).astype(np.float32)

    tensors = [("token_embd.weight", matrix(vocabulary, width, math.sqrt(width)))]
    for layer in range(model.layers):
        shapes = {
            "attn_q": (width, width),
            "attn_k": (key_width, width),
            "attn_v": (key_width, width),
            "attn_output": (width, width),
            "ffn_gate": (model.feed_forward, width),
            "ffn_up": (model.feed_forward, width),
            "ffn_down": (width, model.feed_forward),
        }
        for part in ("attn_norm", "ffn_norm"):
            tensors.append((f"blk.{layer}.{part}.weight", np.ones(width, np.float32)))
        if model.architecture == "qwen3":
            for part in ("attn_q_norm", "attn_k_norm"):
                norm = np.linspace(0.5, 2.0, width // model.heads, dtype=np.float32)
                tensors.append((f"blk.{layer}.{part}.weight", norm))
        for part, shape in shapes.items():
            tensors.append((f"blk.{layer}.{part}.weight", matrix(*shape)))
    tensors.append(("output_norm.weight", np.ones(width, np.float32)))
    tensors.append(("output.weight", matrix(vocabulary, width, model.sharpness)))
    return tensors


def _byte_tokens() -> list[str]:
    """The 256 printable stand-ins of byte-level BPE, in byte order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    return [chr(byte if byte in printable else next(extra)) for byte in range(256)]
