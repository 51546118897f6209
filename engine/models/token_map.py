"""Which tokens two vocabularies share: the same bytes, or the same role for special tokens.

With the map a drafter of another tokenizer drafts through the shared tokens alone (token-level
intersection: Timor et al. 2025, 2502.05202).
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import IncompatiblePairError
from engine.files.file_key import FileKey, file_key
from engine.files.gguf import inspect
from engine.files.gguf_types import TOKEN_BYTE, TOKEN_CONTROL, TOKEN_UNKNOWN, TOKEN_UNUSED
from engine.models.roles import check_models
from engine.models.vocabulary import GgufVocabulary, read_vocabulary

LEAST_SHARE = 0.05
"""Of the target's tokens: with fewer in common hardly anything could be drafted."""

_NO_TEXT = (TOKEN_CONTROL, TOKEN_UNKNOWN, TOKEN_UNUSED)
_BYTE = re.compile(rb"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581".encode()


@dataclass(frozen=True, slots=True, eq=False)
class TokenMap:
    """to_drafter: [target size] int64, drafter id of each target token, -1 for none.

    target_ids, drafter_ids: [shared] int64 each, the pairs; every id stands once.
    """

    to_drafter: NDArray[np.int64]
    target_ids: NDArray[np.int64]
    drafter_ids: NDArray[np.int64]
    drafter_size: int

    @property
    def shared(self) -> int:
        return len(self.target_ids)

    @property
    def share_of_target(self) -> float:
        return self.shared / max(1, len(self.to_drafter))

    @property
    def share_of_drafter(self) -> float:
        return self.shared / max(1, self.drafter_size)


@dataclass(frozen=True, slots=True)
class SharedTokens:
    """What the pair check says of a drafter with another tokenizer. reason: "" if it can draft."""

    ok: bool
    reason: str
    shared: int
    share_of_target: float
    share_of_drafter: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def map_tokens(target: GgufVocabulary, drafter: GgufVocabulary) -> TokenMap:
    """Pairs tokens by their bytes; control tokens by their text or, failing that, their role."""
    places = _places(drafter)
    pairs: dict[int, int] = {}
    taken: set[int] = set()

    def pair(ours: int, theirs: int | None) -> None:
        if theirs is not None and theirs not in taken and ours not in pairs:
            pairs[ours] = theirs
            taken.add(theirs)

    for key, ours in _places(target).items():
        pair(ours, places.get(key))
    for role in ("bos", "eos", "eot"):
        ours, theirs = getattr(target, role), getattr(drafter, role)
        if ours is not None:
            pair(ours, theirs)
    to_drafter = np.full(len(target), -1, np.int64)
    target_ids = np.fromiter(sorted(pairs), np.int64, len(pairs))
    drafter_ids = np.fromiter((pairs[int(ours)] for ours in target_ids), np.int64, len(pairs))
    to_drafter[target_ids] = drafter_ids
    return TokenMap(to_drafter, target_ids, drafter_ids, len(drafter))


def _places(vocabulary: GgufVocabulary) -> dict[tuple[bool, bytes], int]:
    """(is special, bytes) to the id; a byte token only stands for a byte no other token is."""
    decode = _decode_byte_level if vocabulary.model == "gpt2" else _decode_spaces
    places: dict[tuple[bool, bytes], int] = {}
    for token, (text, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True)):
        if kind == TOKEN_CONTROL:
            places.setdefault((True, text), token)
        elif kind not in (*_NO_TEXT, TOKEN_BYTE):
            places.setdefault((False, decode(text)), token)
    for token, (text, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True)):
        byte = _BYTE.fullmatch(text) if kind == TOKEN_BYTE else None
        if byte is not None:
            places.setdefault((False, bytes.fromhex(byte[1].decode())), token)
    return places


def _decode_spaces(text: bytes) -> bytes:
    """Sentencepiece spelling."""
    return text.replace(_SPACE, b" ")


def _decode_byte_level(text: bytes) -> bytes:
    """Byte-level BPE spelling: one printable character a byte; other text stands for itself."""
    table = _byte_of_character()
    characters = text.decode("utf-8", "replace")
    if all(character in table for character in characters):
        return bytes(table[character] for character in characters)
    return text


@lru_cache(maxsize=1)
def _byte_of_character() -> dict[str, int]:
    """GPT-2's table: printable Latin-1 stands for itself, the rest follows from U+0100 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + index): byte for index, byte in enumerate(others)}


def shared_tokens(target: Path, drafter: Path) -> SharedTokens:
    """Whether, and through how many tokens, the drafter can draft across tokenizers.

    Raises ModelFileError if one of the files cannot be read.
    """
    reason = check_models(inspect(target), inspect(drafter))
    if reason:
        return SharedTokens(False, reason, 0, 0.0, 0.0)
    tokens = token_map(target, drafter)
    share = tokens.share_of_target
    reason = "" if share >= LEAST_SHARE else f"only {share:.1%} of the target's tokens in common"
    return SharedTokens(not reason, reason, tokens.shared, share, tokens.share_of_drafter)


def require_shared(target: Path, drafter: Path) -> TokenMap:
    """The map for callers that cannot go on without. Raises IncompatiblePairError."""
    report = shared_tokens(target, drafter)
    if not report.ok:
        raise IncompatiblePairError(
            f"{drafter.name} cannot draft for {target.name}: {report.reason}"
        )
    return token_map(target, drafter)


def token_map(target: Path, drafter: Path) -> TokenMap:
    """Remembered until either file changes."""
    return _token_map(file_key(target), file_key(drafter))


@lru_cache(maxsize=16)
def _token_map(target: FileKey, drafter: FileKey) -> TokenMap:
    return map_tokens(read_vocabulary(target.path), read_vocabulary(drafter.path))
