"""What a GGUF file is, from its header: size, shape, quantisation, template, and its use.

Knows the metadata keys of llama.cpp; reads no tensor data and loads no library.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.data.errors import ModelFileError
from engine.files.gguf_header import Header, Tensor, Value, read_header
from engine.files.gguf_kind import what_else
from engine.files.gguf_types import FILE_TYPES, TENSOR_TYPES

MAX_LAYERS = 10_000
_GUESSED = 1024  # flag in general.file_type: the label is not certain
_SPLIT = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


@dataclass(frozen=True, slots=True)
class GgufInfo:
    """A model file as its header describes it.

    bytes: the whole file, all parts of a split model. head_count, head_count_kv: one per layer.
    key_length, value_length: per head. sliding_window: 0 for none. full_layers: how many layers
    attend to the whole context (block_count unless the file or architecture says fewer).
    needs: None for a plain text model, else the method that runs it ("EAGLE-3") or what it is
    ("an embedding model"). recurrent: its state cannot be cut back token by token.
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

    @property
    def is_model(self) -> bool:
        """Whether it generates text by itself, as target or plain drafter."""
        return self.needs is None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"is_model": self.is_model}


def inspect(path: Path) -> GgufInfo:
    """Describe a GGUF file; repeated calls are free until the file changes.

    Raises ModelFileError: missing, empty, not GGUF, truncated or damaged.
    """
    resolved, size, modified = file_key(path)
    return _inspect(resolved, size, modified)


def file_key(path: Path) -> tuple[Path, int, int]:
    """Path, size and modification time: what a cached answer about a file depends on."""
    try:
        status = path.stat()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelFileError(f"{path} cannot be read: {reason}") from error
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file")
    return path.absolute(), status.st_size, status.st_mtime_ns


@lru_cache(maxsize=512)
def _inspect(path: Path, size: int, modified: int) -> GgufInfo:
    header = read_header(path)
    info = _describe(path, header)
    for part in _other_parts(path, info.is_split):
        more = read_header(part)
        info = replace(
            info,
            bytes=info.bytes + more.file_bytes,
            parameters=info.parameters + sum(tensor.elements for tensor in more.tensors),
        )
    return info


def _other_parts(path: Path, is_split: bool) -> list[Path]:
    """The remaining files of a split model, when this is the first and all are there."""
    named = _SPLIT.match(path.name)
    if not is_split or named is None or int(named["number"]) != 1:
        return []
    numbers = range(2, min(int(named["count"]), 999) + 1)
    parts = [path.with_name(f"{named['stem']}-{n:05d}-of-{named['count']}.gguf") for n in numbers]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ModelFileError(f"{path.name} is split and {missing[0]} is missing beside it")
    return parts


def _describe(path: Path, header: Header) -> GgufInfo:
    keys = _Keys(header, path.name)
    architecture = keys.text("general.architecture")
    if not architecture:
        raise ModelFileError(f"{path.name} does not name its architecture")
    blocks = keys.layers("block_count")
    heads = keys.per_layer("attention.head_count", blocks, 0)
    embedding = keys.integer("embedding_length")
    head_width = embedding // max(heads, default=1) if max(heads, default=0) else 0
    window = keys.integer("attention.sliding_window")
    kind = keys.text("general.type")
    is_pooled = keys.value("pooling_type") not in (None, 0)
    is_causal = keys.value("attention.causal") is not False
    return GgufInfo(
        path=str(path),
        bytes=header.file_bytes,
        architecture=architecture,
        name=keys.text("general.name") or path.stem,
        parameters=sum(tensor.elements for tensor in header.tensors),
        quant=_quant(keys.general("general.file_type"), header.tensors),
        licence=keys.text("general.license"),
        context_length=keys.integer("context_length"),
        block_count=blocks,
        embedding_length=embedding,
        feed_forward_length=max(keys.per_layer("feed_forward_length", blocks, 0), default=0),
        head_count=heads,
        head_count_kv=keys.per_layer("attention.head_count_kv", blocks, max(heads, default=0)),
        key_length=keys.integer("attention.key_length") or head_width,
        value_length=keys.integer("attention.value_length") or head_width,
        sliding_window=window,
        full_layers=_full_layers(architecture, blocks, keys) if window else blocks,
        vocabulary_size=_vocabulary_size(keys, header),
        tokenizer_model=keys.text("tokenizer.ggml.model"),
        tokenizer_pre=keys.text("tokenizer.ggml.pre"),
        chat_template=keys.text("tokenizer.chat_template") or None,
        is_split=keys.general("split.count") > 1,
        nextn_layers=keys.integer("nextn_predict_layers"),
        needs=what_else(architecture, kind, is_causal=is_causal, is_pooled=is_pooled),
        recurrent=keys.has("ssm.conv_kernel") or keys.has("wkv.head_size"),
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


_ONE_FULL_IN = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4}
"""Architectures whose layer pattern llama.cpp knows without metadata: every n-th layer is full."""


def _full_layers(architecture: str, blocks: int, keys: _Keys) -> int:
    """Layers that keep the whole context; all of them where the pattern is not known."""
    pattern = keys.value("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        return blocks - sum(1 for sliding in pattern[:blocks] if sliding)
    period = pattern if isinstance(pattern, int) else _ONE_FULL_IN.get(architecture, 1)
    return blocks // period if period > 1 else blocks
