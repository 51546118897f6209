"""What each layer of a model keeps of the text: keys and values, or a recurrent state.

The rules are llama.cpp's, which knows much of it by the architecture's name alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.files.gguf_header import Value

_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""Every layer has a state, none keeps keys and values."""

_BOTH = frozenset({"falcon-h1"})
"""Every layer has a state, and keeps keys and values too."""

_INTERVAL = frozenset({"qwen3next", "qwen35", "qwen35moe", "qwen4exp", "minimax-01"})
"""Every n-th layer attends. Other hybrids list no KV heads for their recurrent layers."""

_USUAL_INTERVAL = 4

_SLIDING = {
    "afmoe": 4,
    "cohere2": 4,
    "cohere2moe": 4,
    "exaone-moe": 4,
    "exaone4": 4,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "laguna": 4,
    "mellum": 4,
    "muse-glimmer": 4,
    "olmo2": 4,
    "plamo3": 8,
    "smallthinker": 4,
}
"""Architectures whose pattern llama.cpp knows without metadata: every n-th layer is full."""

_FULL_FIRST = frozenset({"cohere2moe", "laguna", "smallthinker"})
_ALL_SLIDING = frozenset({"lfm2"})
_GEMMA3N_OWN = 20
"""Layers of gemma3n from here on use the keys and values of earlier ones."""

_GOES_BACK = frozenset(
    {"kimi-k3", "qwen35", "qwen35moe", "qwen4exp", "glm5-next", "nemotron_h", "nemotron_h_moe"}
    | {"lfm2", "lfm2moe", "bailingmoe3"}
)
"""Recurrent architectures for which llama.cpp keeps earlier states, to go back to."""


class LayerKeys(Protocol):
    """The metadata under the architecture's prefix."""

    def has(self, key: str) -> bool: ...

    def value(self, key: str) -> Value | None: ...

    def integer(self, key: str) -> int: ...

    def per_layer(self, key: str, layers: int, default: int) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What the caches of a model depend on. trunk: layers without those for multi-token prediction.

    head_count, head_count_kv: one per layer. key_length, value_length: per head.
    """

    architecture: str
    trunk: int
    embedding_length: int
    head_count: tuple[int, ...]
    head_count_kv: tuple[int, ...]
    key_length: int
    value_length: int

    @property
    def layers(self) -> int:
        return len(self.head_count_kv)


@dataclass(frozen=True, slots=True)
class LayerCaches:
    """One entry per layer. kv: numbers kept of each token. states: numbers of a recurrent state.

    sliding: whether the layer attends to a window only. goes_back: earlier states can be kept.
    """

    kv: tuple[int, ...]
    sliding: tuple[bool, ...]
    states: tuple[int, ...]
    goes_back: bool


def layer_caches(shape: LayerShape, keys: LayerKeys) -> LayerCaches:
    sliding = _sliding(shape, keys)
    recurrent = _recurrent(shape, keys)
    both = shape.architecture in _BOTH
    feed_forward = keys.per_layer("feed_forward_length", shape.layers, 0)
    alone = shape.architecture.startswith("nemotron_h")  # its layers do one thing each
    state = _state(shape, keys)
    own = _layers_with_own_kv(shape, keys)
    return LayerCaches(
        kv=tuple(
            0 if layer >= own or (recurrent[layer] and not both) else size
            for layer, size in enumerate(_kv(shape, keys, sliding))
        ),
        sliding=sliding,
        states=tuple(
            state if is_recurrent and not (alone and feed_forward[layer]) else 0
            for layer, is_recurrent in enumerate(recurrent)
        ),
        goes_back=shape.architecture in _GOES_BACK,
    )


def _recurrent(shape: LayerShape, keys: LayerKeys) -> tuple[bool, ...]:
    if shape.architecture in _RECURRENT | _BOTH:
        return (True,) * shape.layers
    listed = keys.value("attention.recurrent_layers")
    if isinstance(listed, tuple):
        return _flags(listed, shape.layers)
    if shape.architecture in _INTERVAL:
        interval = keys.integer("full_attention_interval") or _USUAL_INTERVAL
        return tuple(
            layer < shape.trunk and (layer + 1) % interval != 0 for layer in range(shape.layers)
        )
    return tuple(
        layer < shape.trunk and heads == 0 for layer, heads in enumerate(shape.head_count_kv)
    )


def _sliding(shape: LayerShape, keys: LayerKeys) -> tuple[bool, ...]:
    """No layer where the pattern is not known: that needs most memory."""
    layers, architecture = shape.layers, shape.architecture
    if not keys.integer("attention.sliding_window"):
        return (False,) * layers
    pattern = keys.value("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        return _flags(pattern, layers)
    if architecture in _ALL_SLIDING:
        return (True,) * layers
    period = pattern if isinstance(pattern, int) else _SLIDING.get(architecture, 1)
    if period < 2:
        return (False,) * layers
    full = 0 if architecture in _FULL_FIRST else period - 1
    return tuple(layer < shape.trunk and layer % period != full for layer in range(layers))


def _flags(listed: Sequence[object], layers: int) -> tuple[bool, ...]:
    return tuple(map(bool, (*listed, *[0] * layers)))[:layers]


def _kv(shape: LayerShape, keys: LayerKeys, sliding: Sequence[bool]) -> tuple[int, ...]:
    """Keys and values of a token in each layer, were all of them to attend."""
    full = shape.key_length + shape.value_length
    # Latent attention keeps no values of their own; with an indexer it keeps something else.
    if keys.integer("attention.key_length_mla") and not keys.has("attention.indexer.key_length"):
        full = shape.key_length
    short = keys.integer("attention.key_length_swa") + keys.integer("attention.value_length_swa")
    return tuple(
        heads * (short if short and is_sliding else full)
        for heads, is_sliding in zip(shape.head_count_kv, sliding, strict=True)
    )


def _layers_with_own_kv(shape: LayerShape, keys: LayerKeys) -> int:
    if shape.architecture == "gemma3n":
        return _GEMMA3N_OWN
    return max(0, shape.layers - keys.integer("attention.shared_kv_layers"))


def _state(shape: LayerShape, keys: LayerKeys) -> int:
    """Numbers of one recurrent layer's state: what its convolution remembers, and the rest."""
    heads = max(shape.head_count, default=0)
    kernel = keys.integer("ssm.conv_kernel")
    if wkv := keys.integer("wkv.head_size"):
        shifts = keys.integer("token_shift_count") or 2
        return shape.embedding_length * (shifts + wkv)
    inner, size = keys.integer("ssm.inner_size"), keys.integer("ssm.state_size")
    if remembered := keys.integer("shortconv.l_cache"):
        return shape.embedding_length * (remembered - 1) + size * inner
    if width := keys.integer("kda.head_dim"):
        return 3 * max(kernel - 1, 0 if kernel else 3) * heads * width + width * width * heads
    convolution = max(kernel - 1, 0) * (inner + 2 * keys.integer("ssm.group_count") * size)
    if shape.architecture == "minimax-01":
        return convolution + shape.key_length**2 * heads
    return convolution + size * inner
