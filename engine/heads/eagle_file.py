"""EAGLE-1 and EAGLE-2 checkpoints (Li et al. 2024, arXiv 2401.15077, 2406.16858), as published.

One decoder layer over pairs of a token's embedding and the hidden state before it. The layer has
no norm at its input, and the target's own output matrix turns its states into logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.data.errors import ModelFileError
from engine.files.checkpoint import TORCH_NAME, Config, read_checkpoint
from engine.files.foreign_file import foreign_file
from engine.files.tensor_data import FLOATS, TensorData

_LAYER = "layers.0."
_IGNORED = ("embed_tokens.weight", f"{_LAYER}self_attn.rotary_emb.inv_freq")
"""The target's own embeddings are read instead: checkpoints only hold a copy of them."""


@dataclass(frozen=True, slots=True)
class EagleShape:
    """rope_scale: factor of the positions. Sizes in values, vocabulary in tokens."""

    hidden: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    rope_base: float
    rope_scale: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class Linear:
    """weight: [out, in]. bias: [out] or None."""

    weight: TensorData
    bias: TensorData | None = None


@dataclass(frozen=True, slots=True)
class EagleLayer:
    """A whole checkpoint. fc takes the embedding and the state side by side, in that order.

    file: one of its weight files.
    """

    file: Path
    shape: EagleShape
    fc: Linear
    query: Linear
    key: Linear
    value: Linear
    attention_output: Linear
    norm: TensorData
    gate: Linear
    up: Linear
    down: Linear

    @property
    def linears(self) -> tuple[Linear, ...]:
        return (
            self.fc, self.query, self.key, self.value, self.attention_output, self.gate, self.up,
            self.down,
        )  # fmt: skip


def read_eagle(path: Path) -> EagleLayer:
    """A folder with config.json and the weights, or one of its files.

    Raises ModelFileError: missing, damaged, or not an EAGLE-1 or EAGLE-2 checkpoint.
    """
    folder = path if path.is_dir() else path.parent
    with foreign_file(folder):
        values, tensors = read_checkpoint(folder)
        shape = _shape(Config(values, f"{folder.name}/config.json"))
        reader = _Reader(folder.name, {key.removeprefix("model."): t for key, t in tensors.items()})
        layer = _collect(reader, shape, _weights_file(folder))
        reader.require_all_used()
        return layer


def _weights_file(folder: Path) -> Path:
    return next(iter(sorted(folder.glob("*.safetensors"))), folder / TORCH_NAME)


def _shape(config: Config) -> EagleShape:
    if config.integer("num_hidden_layers", 1) != 1:
        raise ModelFileError("EAGLE checkpoints with more than one layer are not known")
    if config.text("hidden_act") not in ("", "silu"):
        raise ModelFileError(f"an EAGLE layer with {config.text('hidden_act')} is not known")
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    rope = config.table("rope_parameters") or config
    return EagleShape(
        hidden=hidden,
        vocabulary=config.integer("vocab_size"),
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_width=config.integer("head_dim", hidden // heads),
        feed_forward=config.integer("intermediate_size"),
        rope_base=rope.number("rope_theta", 10_000.0),
        rope_scale=_rope_scale(config),
        epsilon=config.number("rms_norm_eps", 1e-6),
    )


def _rope_scale(config: Config) -> float:
    scaling = config.table("rope_scaling") or config.table("rope_parameters")
    if scaling is None:
        return 1.0
    kind = scaling.text("rope_type") or scaling.text("type")
    if kind in ("", "default"):
        return 1.0
    if kind != "linear":
        raise ModelFileError(f"an EAGLE layer with {kind} rope scaling cannot be used")
    return 1.0 / scaling.number("factor", 1.0)


def _collect(reader: _Reader, shape: EagleShape, file: Path) -> EagleLayer:
    hidden, inner = shape.hidden, shape.feed_forward
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    if shape.heads % shape.kv_heads or shape.head_width % 2:
        raise ModelFileError(f"{reader.name}: impossible numbers of attention heads")
    attention, mlp = f"{_LAYER}self_attn.", f"{_LAYER}mlp."
    return EagleLayer(
        file=file,
        shape=shape,
        fc=reader.linear("fc", hidden, 2 * hidden),
        query=reader.linear(f"{attention}q_proj", queries, hidden),
        key=reader.linear(f"{attention}k_proj", keys, hidden),
        value=reader.linear(f"{attention}v_proj", keys, hidden),
        attention_output=reader.linear(f"{attention}o_proj", hidden, queries),
        norm=reader.vector(f"{_LAYER}post_attention_layernorm.weight", hidden),
        gate=reader.linear(f"{mlp}gate_proj", inner, hidden),
        up=reader.linear(f"{mlp}up_proj", inner, hidden),
        down=reader.linear(f"{mlp}down_proj", hidden, inner),
    )


class _Reader:
    """Hands out tensors of the shape that is expected of them."""

    def __init__(self, name: str, tensors: Mapping[str, TensorData]) -> None:
        self.name = name
        self._tensors = tensors
        self._used = set(_IGNORED)

    def linear(self, key: str, rows: int, columns: int) -> Linear:
        weight = self._take(f"{key}.weight", (rows, columns))
        if f"{key}.bias" not in self._tensors:
            return Linear(weight)
        return Linear(weight, self.vector(f"{key}.bias", rows))

    def vector(self, key: str, size: int) -> TensorData:
        return self._take(key, (size,))

    def _take(self, key: str, shape: tuple[int, ...]) -> TensorData:
        tensor = self._tensors.get(key)
        if tensor is None:
            raise ModelFileError(f"{self.name} is no EAGLE checkpoint: it lacks {key}")
        if tensor.shape != shape or tensor.dtype not in FLOATS:
            raise ModelFileError(
                f"{self.name}: {key} is {tensor.dtype} {tensor.shape}, not {shape}"
            )
        self._used.add(key)
        return tensor

    def require_all_used(self) -> None:
        if unknown := sorted(set(self._tensors) - self._used):
            raise ModelFileError(
                f"{self.name} holds {unknown[0][:80]!r}, which no EAGLE-1 or EAGLE-2 layer has"
            )
