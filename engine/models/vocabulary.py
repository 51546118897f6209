"""A GGUF file's vocabulary: the bytes of every token, their types, and the special ids."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.data.errors import ModelFileError
from engine.files.file_key import FileKey, file_key
from engine.files.foreign_file import foreign_file
from engine.files.gguf_header import Header, read_header
from engine.files.gguf_types import TOKEN_NORMAL

_TOKENS = "tokenizer.ggml.tokens"
_TYPES = "tokenizer.ggml.token_type"
_IDENTITY_LENGTH = 32


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """tokens: text of each id as stored (byte-level or sentencepiece spelling), undecoded.

    types: one TOKEN_* number of gguf_types per id. bos, eos, eot: None if the file has none.
    """

    tokens: tuple[bytes, ...]
    types: tuple[int, ...]
    bos: int | None
    eos: int | None
    eot: int | None
    add_bos: bool | None
    model: str
    pre: str

    def __len__(self) -> int:
        return len(self.tokens)


def read_vocabulary(path: Path) -> GgufVocabulary:
    """Read the vocabulary; the last few stay in memory until their file changes.

    Raises ModelFileError, also when the file has no vocabulary.
    """
    with foreign_file(path):
        return _read_vocabulary(file_key(path))


def vocabulary_identity(path: Path) -> str:
    """The same for two files where every id stands for the same token; "" without a vocabulary."""
    try:
        vocabulary = read_vocabulary(path)
    except ModelFileError:
        return ""
    digest = hashlib.sha256(f"{vocabulary.model}\n{vocabulary.pre}\n{vocabulary.types}".encode())
    for token in vocabulary.tokens:
        digest.update(len(token).to_bytes(4, "little") + token)
    return digest.hexdigest()[:_IDENTITY_LENGTH]


def require_distinct_tokens(path: Path) -> None:
    """ModelFileError when a text stands for two tokens: llama.cpp would end its process on it."""
    twice = _token_that_is_twice(file_key(path))
    if twice:
        text = twice.decode("utf-8", "replace")
        raise ModelFileError(
            f"{path.name} is damaged: its vocabulary holds {text[:80]!r} twice; fetch it again"
        )


@lru_cache(maxsize=64)
def _token_that_is_twice(key: FileKey) -> bytes:
    """b"" for none; empty ones get names of their own from llama.cpp."""
    tokens = read_header(key.path, keep=(_TOKENS,)).metadata.get(_TOKENS)
    seen: set[bytes] = set()
    for token in tokens if isinstance(tokens, tuple) else ():
        if isinstance(token, bytes) and token:
            if token in seen:
                return token
            seen.add(token)
    return b""


@lru_cache(maxsize=8)
def _read_vocabulary(key: FileKey) -> GgufVocabulary:
    path = key.path
    header = read_header(path, keep=(_TOKENS, _TYPES))
    tokens = header.metadata.get(_TOKENS)
    if not isinstance(tokens, tuple) or not all(isinstance(token, bytes) for token in tokens):
        raise ModelFileError(f"{path.name} has no vocabulary")
    texts = tuple(token for token in tokens if isinstance(token, bytes))
    add_bos = header.metadata.get("tokenizer.ggml.add_bos_token")
    return GgufVocabulary(
        tokens=texts,
        types=_types(header, len(texts), path.name),
        bos=_special(header, "bos", len(texts)),
        eos=_special(header, "eos", len(texts)),
        eot=_special(header, "eot", len(texts)),
        add_bos=bool(add_bos) if add_bos is not None else None,
        model=str(header.metadata.get("tokenizer.ggml.model", "")),
        pre=str(header.metadata.get("tokenizer.ggml.pre", "")),
    )


def _types(header: Header, count: int, file_name: str) -> tuple[int, ...]:
    stored = header.metadata.get(_TYPES)
    if stored is None:
        return (TOKEN_NORMAL,) * count
    if not isinstance(stored, tuple) or len(stored) != count:
        raise ModelFileError(f"{file_name} is damaged: token types and tokens differ in number")
    return tuple(kind if isinstance(kind, int) else TOKEN_NORMAL for kind in stored)


def _special(header: Header, name: str, count: int) -> int | None:
    """The id, None when absent or outside the vocabulary (some files store -1)."""
    token = header.metadata.get(f"tokenizer.ggml.{name}_token_id")
    return token if isinstance(token, int) and 0 <= token < count else None
