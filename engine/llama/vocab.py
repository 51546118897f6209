"""A loaded model's vocabulary: text to ids, ids to bytes, which ids end a reply."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence

from llama_cpp import llama_cpp as native

from engine.data.errors import NativeError

_PIECE_BYTES = 256
_SPECIAL: int = native.LLAMA_TOKEN_ATTR_CONTROL | native.LLAMA_TOKEN_ATTR_UNKNOWN


class Vocab:
    """Valid as long as the model it came from is open."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.size: int = native.llama_vocab_n_tokens(handle)
        self.bos: int = native.llama_vocab_bos(handle)
        self.eos: int = native.llama_vocab_eos(handle)
        self.adds_bos: bool = bool(native.llama_vocab_get_add_bos(handle))
        self._can_read = native.llama_vocab_type(handle) != native.LLAMA_VOCAB_TYPE_NONE
        self._pieces: dict[tuple[int, bool], bytes] = {}
        self._end_of_generation: dict[int, bool] = {}
        self._control: dict[int, bool] = {}
        self._special: dict[str, int] | None = None

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of text. parse_special: read "<|im_end|>" and the like as control tokens.

        add_special: begin as the model's texts begin. llama.cpp would also end the text where a
        file asks for that (add_eos_token), but what goes on must not have ended.
        """
        tokens = self._tokenize(text, parse_special)
        return [self.bos, *tokens] if add_special and self.adds_bos and self.bos >= 0 else tokens

    def _tokenize(self, text: str, parse_special: bool) -> list[int]:
        if not self._can_read:
            raise NativeError("the model has no vocabulary, so it reads no text; choose another")
        data = text.encode("utf-8", errors="replace")
        capacity = len(data) + 16
        while True:
            tokens = (native.llama_token * capacity)()
            count = native.llama_tokenize(
                self._handle, data, len(data), tokens, capacity, False, parse_special
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

    def special_texts(self) -> Mapping[str, int]:
        """Text to id of all that only parse_special reads as one token."""
        if self._special is None and not self._can_read:
            self._special = {}
        if self._special is None:
            attributes = native.llama_vocab_get_attr
            found = (
                token for token in range(self.size) if attributes(self._handle, token) & _SPECIAL
            )
            texts = {self.special_text(token): token for token in found}
            self._special = {text: token for text, token in texts.items() if text}
        return self._special

    def takes_space(self, token: int) -> tuple[bool, bool]:
        """Whether a special token takes the white space in front of it, and behind it."""
        attributes = native.llama_vocab_get_attr(self._handle, token)
        return (
            bool(attributes & native.LLAMA_TOKEN_ATTR_LSTRIP),
            bool(attributes & native.LLAMA_TOKEN_ATTR_RSTRIP),
        )

    def first_end_of_generation(self, tokens: Sequence[int]) -> int | None:
        """Index of the first token that ends the reply, None if there is none."""
        for index, token in enumerate(tokens):
            if self.ends_generation(token):
                return index
        return None
