"""Between the token ids of two tokenizers: a drafter is kept in step with the text itself.

Proposals go through the tokens that both vocabularies have (token-level intersection, Timor et
al. 2025, 2502.05202): q is the drafter's distribution restricted to them, so every rule is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.models.token_map import TokenMap

_LONGEST_REENCODED = 8


class Pieces(Protocol):
    """The target's vocabulary; see engine.llama.vocab.Vocab."""

    def piece(self, token: int, *, special: bool = False) -> bytes: ...

    def is_control(self, token: int) -> bool: ...


class Tokenizer(Protocol):
    """The drafter's vocabulary; see engine.llama.vocab.Vocab."""

    bos: int
    adds_bos: bool

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]: ...


class TranslatedTokens:
    """Follows one chat. What it made of a prompt is kept while the chat only grows."""

    def __init__(self, tokens: TokenMap, target: Pieces, drafter: Tokenizer) -> None:
        self._map = tokens
        self._target = target
        self._drafter = drafter
        self._row = np.full(len(tokens.to_drafter), -np.inf, np.float32)
        self._byte_tokens = _byte_tokens(tokens, target)
        self._source: list[int] = []  # target ids translated so far
        self._tokens: list[int] = []
        # (target ids, drafter ids) that stand for the same text, where a token ends on both sides.
        self._marks: list[tuple[int, int]] = []

    def begin(self, prompt: Sequence[int]) -> None:
        if list(prompt[: len(self._source)]) != self._source or not self._source:
            self._restart(prompt)

    def follow(self, context: Sequence[int]) -> Sequence[int]:
        if list(context[: len(self._source)]) != self._source:
            self._restart(context)
        for token in context[len(self._source) :]:
            self._append(token)
        return self._tokens

    def step(self, token: int) -> Sequence[int]:
        theirs = int(self._map.to_drafter[token])
        return (theirs,) if theirs >= 0 else self._encode([token])

    def logits(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        self._row[self._map.target_ids] = row[self._map.drafter_ids]
        return self._row

    def _restart(self, context: Sequence[int]) -> None:
        """As the drafter's own tokenizer splits the text; shared control tokens stay themselves."""
        self._source, self._tokens, self._marks = [], [], []
        if self._drafter.adds_bos and self._drafter.bos >= 0:
            self._tokens.append(self._drafter.bos)
        self._mark()
        run: list[int] = []
        for token in context:
            theirs = int(self._map.to_drafter[token])
            if theirs >= 0 and self._target.is_control(token):
                self._take(run)
                run = []
                if self._tokens[-1:] != [theirs] or theirs != self._drafter.bos:
                    self._tokens.append(theirs)
                self._source.append(token)
                self._mark()
            else:
                run.append(token)
        self._take(run)

    def _take(self, run: Sequence[int]) -> None:
        self._source.extend(run)
        self._tokens.extend(self._encode(run))
        self._mark()

    def _append(self, token: int) -> None:
        theirs = int(self._map.to_drafter[token])
        if theirs >= 0:
            self._source.append(token)
            self._tokens.append(theirs)
            self._mark()
            return
        self._source.append(token)
        start, end = self._word_start()
        del self._tokens[end:]
        self._tokens.extend(self._encode(self._source[start:]))
        self._mark()

    def _word_start(self) -> tuple[int, int]:
        """A mark before the new token, if possible where a word begins; later marks go."""
        lowest = len(self._source) - _LONGEST_REENCODED
        chosen = len(self._marks) - 1
        for index in range(len(self._marks) - 1, -1, -1):
            start = self._marks[index][0]
            if start < lowest:
                break
            if self._begins_word(start):
                chosen = index
                break
        del self._marks[chosen + 1 :]
        return self._marks[chosen]

    def _begins_word(self, start: int) -> bool:
        if start == 0 or self._target.is_control(self._source[start - 1]):
            return True
        return self._target.piece(self._source[start])[:1] in (b" ", b"\n")

    def _mark(self) -> None:
        self._marks.append((len(self._source), len(self._tokens)))

    def _encode(self, tokens: Iterable[int]) -> list[int]:
        """The drafter's ids for the text of target tokens; byte by byte where it is no text yet."""
        data = b"".join(self._target.piece(token, special=True) for token in tokens)
        if not data:
            return []
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return [self._byte_tokens[byte] for byte in data if byte in self._byte_tokens]
        return self._drafter.tokenize(text, add_special=False, parse_special=False)


def _byte_tokens(tokens: TokenMap, target: Pieces) -> dict[int, int]:
    """Byte to the drafter's token for it, as far as the target has one too."""
    found: dict[int, int] = {}
    for ours, theirs in zip(tokens.target_ids.tolist(), tokens.drafter_ids.tolist(), strict=True):
        piece = target.piece(ours)
        if len(piece) == 1:
            found.setdefault(piece[0], theirs)
    return found
