"""What a GGUF file is, from its header: size, shape, quantisation, template, and its use.

Knows the metadata keys of llama.cpp; reads no tensor data and loads no library.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.data.errors import ModelFileError
from engine.data.shown import shown_name
from engine.files.file_key import FileKey, file_key
from engine.files.foreign_file import foreign_file
from engine.files.gguf_caches import LayerShape, layer_caches
from engine.files.gguf_header import Header, Tensor, Value, read_header
from engine.files.gguf_kind import what_else
from engine.files.gguf_split import other_parts, refuse_later_part
from engine.files.gguf_types import FILE_TYPES, TENSOR_TYPES
from engine.files.reference import reference_of

MAX_LAYERS = 10_000
_LONGEST_IDENTIFIER = 100
_GUESSED = 1024  # flag in general.file_type: the label is not certain


@dataclass(frozen=True, slots=True)
class GgufInfo:
    """A model file as its header describes it.

    bytes: the whole file, all parts of a split model. head_count, head_count_kv: one per layer.
    key_length, value_length: per head. sliding_window: 0 for none. full_layers: how many layers
    attend to the whole context (block_count unless the file or architecture says fewer).
    needs: None for a plain text model, else the method that runs it ("EAGLE-3") or what it is
    ("an embedding model"). recurrent: its state cannot be cut back token by token.
    kv_values: numbers that a layer keeps of a token, one per layer. sliding: whether it keeps only
    those of a window. state_values: numbers of its recurrent state; keeps_states: earlier ones too.
    """

    path: str
    bytes: int
    architecture: str
    name: str
    parameters: int
    quant: str
    licence: str
    context_length: int
    block_count: int
    embedding_length: int
    feed_forward_length: int
    head_count: tuple[int, ...]
    head_count_kv: tuple[int, ...]
    key_length: int
    value_length: int
    sliding_window: int
    full_layers: int
    vocabulary_size: int
    tokenizer_model: str
    tokenizer_pre: str
    chat_template: str | None
    is_split: bool
    nextn_layers: int
    needs: str | None
    recurrent: bool
    kv_values: tuple[int, ...]
    sliding: tuple[bool, ...]
    state_values: tuple[int, ...]
    keeps_states: bool

    @property
    def trunk_layers(self) -> int:
        """Without those that predict tokens after the next one, unless there are no others."""
        trunk = self.block_count - self.nextn_layers
        return trunk if trunk > 0 else self.block_count

    @property
    def is_model(self) -> bool:
        """Whether it generates text by itself, as target or plain drafter."""
        return self.needs is None

    def to_json(self) -> dict[str, Any]:
        path = reference_of(Path(self.path))
        return asdict(self) | {"path": path, "is_model": self.is_model}


def inspect(path: Path) -> GgufInfo:
    """Describe a GGUF file; repeated calls are free until the file changes.

    Raises ModelFileError: missing, empty, not GGUF, truncated or damaged.
    """
    return _inspect(file_key(path))


@lru_cache(maxsize=512)
def _inspect(key: FileKey) -> GgufInfo:
    path = key.path
    with foreign_file(path):
        header = read_header(path)
        info = _describe(path, header)
        for part in other_parts(path, _Keys(header, path.name).general("split.count")):
            more = read_header(part)
            info = replace(
                info,
                bytes=info.bytes + more.file_bytes,
                parameters=info.parameters + sum(tensor.elements for tensor in more.tensors),
            )
        return info


def _describe(path: Path, header: Header) -> GgufInfo:
    keys = _Keys(header, path.name)
    architecture = keys.identifier("general.architecture")
    refuse_later_part(path, header)
    if not architecture:
        raise ModelFileError(f"{path.name} does not name its architecture")
    blocks = keys.layers("block_count")
    shape = _shape(architecture, blocks, keys)
    caches = layer_caches(shape, keys)
    kind = keys.text("general.type")
    is_pooled = keys.value("pooling_type") not in (None, 0)
    is_causal = keys.value("attention.causal") is not False
    return GgufInfo(
        path=str(path),
        bytes=header.file_bytes,
        architecture=architecture,
        name=shown_name(keys.text("general.name") or path.stem),
        parameters=sum(tensor.elements for tensor in header.tensors),
        quant=_quant(keys.general("general.file_type"), header.tensors),
        licence=shown_name(keys.text("general.license")),
        context_length=keys.integer("context_length"),
        block_count=blocks,
        embedding_length=shape.embedding_length,
        feed_forward_length=max(keys.per_layer("feed_forward_length", blocks, 0), default=0),
        head_count=shape.head_count,
        head_count_kv=shape.head_count_kv,
        key_length=shape.key_length,
        value_length=shape.value_length,
        sliding_window=keys.integer("attention.sliding_window"),
        full_layers=caches.sliding.count(False),
        vocabulary_size=_vocabulary_size(keys, header),
        tokenizer_model=keys.identifier("tokenizer.ggml.model"),
        tokenizer_pre=keys.identifier("tokenizer.ggml.pre"),
        chat_template=keys.text("tokenizer.chat_template") or None,
        is_split=keys.general("split.count") > 1,
        nextn_layers=keys.integer("nextn_predict_layers"),
        needs=what_else(architecture, kind, is_causal=is_causal, is_pooled=is_pooled),
        recurrent=keys.has("ssm.conv_kernel") or keys.has("wkv.head_size"),
        kv_values=caches.kv,
        sliding=caches.sliding,
        state_values=caches.states,
        keeps_states=caches.goes_back,
    )


def _shape(architecture: str, blocks: int, keys: _Keys) -> LayerShape:
    heads = keys.per_layer("attention.head_count", blocks, 0)
    most = max(heads, default=0)
    embedding = keys.integer("embedding_length")
    width = embedding // most if most else 0
    trunk = blocks - keys.integer("nextn_predict_layers")
    return LayerShape(
        architecture=architecture,
        trunk=trunk if trunk > 0 else blocks,
        embedding_length=embedding,
        head_count=heads,
        head_count_kv=keys.per_layer("attention.head_count_kv", blocks, most),
        key_length=keys.integer("attention.key_length") or width,
        value_length=keys.integer("attention.value_length") or width,
    )


class _Keys:
    """Typed access to the metadata; a key of the wrong type is damage, a missing one is 0 or ""."""

    def __init__(self, header: Header, file_name: str) -> None:
        self._metadata = header.metadata
        self._file_name = file_name
        self._prefix = f"{header.metadata.get('general.architecture')}."

    def has(self, key: str) -> bool:
        return self._prefix + key in self._metadata

    def value(self, key: str) -> Value | None:
        return self._metadata.get(self._prefix + key)

    def text(self, key: str) -> str:
        value = self._metadata.get(key, "")
        if not isinstance(value, str):
            raise self._wrong(key)
        return value

    def identifier(self, key: str) -> str:
        """A word of llama.cpp's own."""
        value = self.text(key)
        if len(value) > _LONGEST_IDENTIFIER or not (value.isascii() and value.isprintable()):
            raise self._wrong(key)
        return value

    def general(self, key: str) -> int:
        value = self._metadata.get(key, 0)
        if not isinstance(value, int) or value < 0:
            raise self._wrong(key)
        return int(value)

    def integer(self, key: str) -> int:
        return self.general(self._prefix + key)

    def layers(self, key: str) -> int:
        count = self.integer(key)
        if count > MAX_LAYERS:
            raise self._wrong(self._prefix + key)
        return count

    def per_layer(self, key: str, layers: int, default: int) -> tuple[int, ...]:
        """One value for each layer: some files store a number, some an array."""
        value = self._metadata.get(self._prefix + key, default)
        if isinstance(value, tuple):
            numbers = tuple(number for number in value if isinstance(number, int) and number >= 0)
            if len(numbers) != len(value):
                raise self._wrong(self._prefix + key)
            return (numbers + (default,) * layers)[:layers]
        if not isinstance(value, int) or value < 0:
            raise self._wrong(self._prefix + key)
        return (int(value),) * layers

    def _wrong(self, key: str) -> ModelFileError:
        return ModelFileError(f"{self._file_name} is damaged: {key} has an impossible value")


def _quant(file_type: int, tensors: tuple[Tensor, ...]) -> str:
    """The usual name from general.file_type, else the type that holds most of the bytes."""
    label = FILE_TYPES.get(file_type)
    weights: Counter[int] = Counter()
    for tensor in tensors:
        weights[tensor.type] += tensor.bytes
    if not weights:
        return label or "unknown"
    dominant = TENSOR_TYPES[weights.most_common(1)[0][0]][0]
    # Writers that do not set the key leave 0, which reads as F32.
    if label is None or file_type & _GUESSED or (label == "F32" and dominant != "F32"):
        return dominant
    return label


def _vocabulary_size(keys: _Keys, header: Header) -> int:
    return header.lengths.get("tokenizer.ggml.tokens", 0) or keys.integer("vocab_size")
