"""EAGLE's draft layer in torch, under the names and in the formats of published checkpoints.

The layer of its authors (2401.15077): a Llama decoder layer without the norm at its input, behind
a matrix over the token's embedding and the state before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.eagle_files import EPSILON, ROPE_BASE, EagleSizes
from tests.engine.head_files import write_safetensors

Layout = Literal["safetensors", "torch"]


class Rotary(nn.Module):
    """Frequencies of the positions, which checkpoints keep too."""

    inv_freq: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("inv_freq", ROPE_BASE ** -(torch.arange(0, width, 2) / width))


class Attention(nn.Module):
    """keys, values: of all entries so far, [heads, entries, width]."""

    def __init__(self, sizes: EagleSizes) -> None:
        super().__init__()
        hidden, keys = sizes.hidden, sizes.kv_heads * sizes.head_width
        self.q_proj = nn.Linear(hidden, hidden, bias=sizes.biases)
        self.k_proj = nn.Linear(hidden, keys, bias=sizes.biases)
        self.v_proj = nn.Linear(hidden, keys, bias=sizes.biases)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)
        self.rotary_emb = Rotary(sizes.head_width)
        self._sizes = sizes
        self.keys = torch.empty(sizes.kv_heads, 0, sizes.head_width)
        self.values = self.keys

    def forward(self, rows: Tensor) -> Tensor:
        start, count = self.keys.shape[1], len(rows)
        positions = torch.arange(start, start + count)
        query = self._turned(self._split(self.q_proj(rows), self._sizes.heads), positions)
        key = self._turned(self._split(self.k_proj(rows), self._sizes.kv_heads), positions)
        value = self._split(self.v_proj(rows), self._sizes.kv_heads)
        self.keys = torch.cat([self.keys, key], dim=1)
        self.values = torch.cat([self.values, value], dim=1)
        sees = torch.arange(start + count) <= positions[:, None]
        mixed = functional.scaled_dot_product_attention(
            query[None], self.keys[None], self.values[None], attn_mask=sees, enable_gqa=True
        )[0]
        projected: Tensor = self.o_proj(mixed.transpose(0, 1).reshape(count, -1))
        return projected

    @staticmethod
    def _split(rows: Tensor, heads: int) -> Tensor:
        return rows.view(len(rows), heads, -1).transpose(0, 1)

    def _turned(self, rows: Tensor, positions: Tensor) -> Tensor:
        angles = torch.outer(positions.float(), self.rotary_emb.inv_freq.float())
        angles = torch.cat([angles, angles], dim=-1)
        low, high = rows.chunk(2, dim=-1)
        return rows * angles.cos() + torch.cat([-high, low], dim=-1) * angles.sin()


class FeedForward(nn.Module):
    def __init__(self, sizes: EagleSizes) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(sizes.hidden, sizes.feed_forward, bias=False)
        self.up_proj = nn.Linear(sizes.hidden, sizes.feed_forward, bias=False)
        self.down_proj = nn.Linear(sizes.feed_forward, sizes.hidden, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        inner = functional.silu(self.gate_proj(rows)) * self.up_proj(rows)
        projected: Tensor = self.down_proj(inner)
        return projected


class DecoderLayer(nn.Module):
    def __init__(self, sizes: EagleSizes) -> None:
        super().__init__()
        self.self_attn = Attention(sizes)
        self.mlp = FeedForward(sizes)
        self.post_attention_layernorm = nn.RMSNorm(sizes.hidden, eps=EPSILON)

    def forward(self, rows: Tensor) -> Tensor:
        attended: Tensor = rows + self.self_attn(rows)
        after: Tensor = attended + self.mlp(self.post_attention_layernorm(attended))
        return after


class TorchEagle(nn.Module):
    """One checkpoint, with random weights that half precision holds exactly.

    ends: embeddings and output matrix of the target, [vocabulary, hidden].
    """

    def __init__(self, sizes: EagleSizes, ends: tuple[np.ndarray, np.ndarray]) -> None:
        super().__init__()
        torch.manual_seed(sizes.seed)
        self.embed_tokens = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList([DecoderLayer(sizes)])
        self.fc = nn.Linear(2 * sizes.hidden, sizes.hidden, bias=sizes.biases)
        nn.init.normal_(self._layer.post_attention_layernorm.weight, mean=1.0, std=0.1)
        self.embed_tokens.weight.data = torch.tensor(ends[0])
        self.half().float()
        self._embeddings, self._output = map(torch.tensor, ends)
        self._sizes = sizes

    @property
    def _layer(self) -> DecoderLayer:
        (layer,) = self.layers
        assert isinstance(layer, DecoderLayer)
        return layer

    @torch.no_grad()
    def forward(self, tokens: list[int], states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Appends entries; logits [entries, vocabulary] and states [entries, hidden] after them."""
        pairs = torch.cat([self._embeddings[tokens], torch.tensor(states)], dim=-1)
        out = self._layer(self.fc(pairs))
        return (out @ self._output.T).numpy(), out.numpy()

    def truncate(self, length: int) -> None:
        attention = self._layer.self_attn
        attention.keys, attention.values = (
            cache[:, :length] for cache in (attention.keys, attention.values)
        )

    def save(self, folder: Path, layout: Layout, dtype: torch.dtype) -> Path:
        """config.json beside pytorch_model.bin, as torch writes it, or model.safetensors."""
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(self._config(dtype)))
        weights = {name: value.to(dtype) for name, value in self.state_dict().items()}
        if layout == "torch":
            torch.save(weights, folder / "pytorch_model.bin")
        else:
            write_safetensors(folder / "model.safetensors", _arrays(weights))
        return folder

    def _config(self, dtype: torch.dtype) -> dict[str, object]:
        sizes = self._sizes
        return {
            "architectures": ["LlamaForCausalLM"],
            "bias": sizes.biases,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_act": "silu",
            "hidden_size": sizes.hidden,
            "initializer_range": 0.02,
            "intermediate_size": sizes.feed_forward,
            "max_position_embeddings": 4096,
            "model_type": "llama",
            "num_attention_heads": sizes.heads,
            "num_hidden_layers": 1,
            "num_key_value_heads": sizes.kv_heads,
            "pad_token_id": 0,
            "rms_norm_eps": EPSILON,
            "rope_scaling": None,
            "tie_word_embeddings": False,
            "torch_dtype": str(dtype).removeprefix("torch."),
            "use_cache": True,
            "vocab_size": sizes.vocabulary,
        }


def _arrays(weights: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """bfloat16, which numpy lacks, as its bits."""
    return {
        name: (value.view(torch.uint16) if value.dtype == torch.bfloat16 else value).numpy()
        for name, value in weights.items()
    }
