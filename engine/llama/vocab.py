"""A loaded model's vocabulary: text to ids, ids to bytes, which ids end a reply."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence

from llama_cpp import llama_cpp as native

from engine.data.errors import NativeError

_PIECE_BYTES = 256


class Vocab:
    """Valid as long as the model it came from is open."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.size: int = native.llama_vocab_n_tokens(handle)
        self.bos: int = native.llama_vocab_bos(handle)
        self.eos: int = native.llama_vocab_eos(handle)
        self.adds_bos: bool = bool(native.llama_vocab_get_add_bos(handle))
        self._pieces: dict[tuple[int, bool], bytes] = {}
        self._end_of_generation: dict[int, bool] = {}
        self._control: dict[int, bool] = {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of text. parse_special: read "<|im_end|>" and the like as control tokens."""
        data = text.encode("utf-8", errors="replace")
        capacity = len(data) + 16
        while True:
            tokens = (native.llama_token * capacity)()
            count = native.llama_tokenize(
                self._handle, data, len(data), tokens, capacity, add_special, parse_special
            )
            if count >= 0:
                return list(tokens[:count])
            if -count <= capacity:
                raise NativeError(f"the tokenizer failed with code {count}")
            capacity = -count

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The token's bytes; control tokens are empty unless special."""
        key = (token, special)
        known = self._pieces.get(key)
        if known is None:
            known = self._pieces[key] = self._read_piece(token, special)
        return known

    def _read_piece(self, token: int, special: bool) -> bytes:
        if not 0 <= token < self.size:
            raise NativeError(f"token {token} is outside the vocabulary of {self.size}")
        capacity = _PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            count = native.llama_token_to_piece(self._handle, token, buffer, capacity, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            capacity = -count

    def text_bytes(self, tokens: Iterable[int], *, special: bool = True) -> bytes:
        return b"".join(self.piece(token, special=special) for token in tokens)

    def special_text(self, token: int) -> str:
        """As chat templates want bos and eos; "" where there is none (token below 0)."""
        return self.piece(token, special=True).decode(errors="replace") if token >= 0 else ""

    def ends_generation(self, token: int) -> bool:
        known = self._end_of_generation.get(token)
        if known is None:
            known = bool(native.llama_vocab_is_eog(self._handle, token))
            self._end_of_generation[token] = known
        return known

    def is_control(self, token: int) -> bool:
        known = self._control.get(token)
        if known is None:
            known = bool(native.llama_vocab_is_control(self._handle, token))
            self._control[token] = known
        return known

    def first_end_of_generation(self, tokens: Sequence[int]) -> int | None:
        """Index of the first token that ends the reply, None if there is none."""
        for index, token in enumerate(tokens):
            if self.ends_generation(token):
                return index
        return None
