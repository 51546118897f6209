"""Earlier texts to copy from: a suffix array, built at once and small, where the chat's own index
grows token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import StopRequested
from engine.data.rounds import CopySource
from engine.drafters.copying.evidence import Continuation, Evidence

LONGEST_MATCH = 32
_MOST_PLACES = 4096
"""Of a match that are looked at, the most recent ones."""

_BETWEEN = -1
"""Stands between texts; no token."""


class EarlierTexts:
    """The texts a reply may copy from besides its own chat, as the index that drafters look into.

    Shared by the drafters of a load. tokenize: a text to the target's tokens. minimum: of a match.
    """

    def __init__(self, tokenize: Callable[[str], list[int]], minimum: int) -> None:
        self._tokenize = tokenize
        self._minimum = minimum
        self._tokens: dict[str, NDArray[np.int32]] = {}
        self._index: EarlierIndex | None = None

    @property
    def bytes(self) -> int:
        held = sum(tokens.nbytes for tokens in self._tokens.values())
        return held + (self._index.bytes if self._index is not None else 0)

    def follow(self, texts: Sequence[str], cancelled: Callable[[], bool] = lambda: False) -> None:
        """Holds exactly these texts, in their order; what is held already is not read again.

        StopRequested when cancelled, asked before every new text; then it holds what it held.
        """
        wanted = list(dict.fromkeys(texts))
        if list(self._tokens) == wanted:
            return
        known = self._tokens
        held: dict[str, NDArray[np.int32]] = {}
        for text in wanted:
            if text in known:
                held[text] = known[text]
                continue
            if cancelled():
                raise StopRequested
            held[text] = np.array(self._tokenize(text), np.int32)
        self._tokens = held
        self._index = EarlierIndex(list(self._tokens.values()), self._minimum) if texts else None

    def cursor(self, context: Sequence[int]) -> EarlierCursor | None:
        return self._index.cursor(context) if self._index is not None else None


class EarlierIndex:
    """Where the last tokens of a chat occurred in earlier texts. 12 bytes a token.

    A suffix array by prefix doubling (Manber and Myers 1993) over the reversed texts, so that a
    match grows backwards from the last token in one descent; sorted as deep as a match may get.
    """

    def __init__(self, texts: Sequence[NDArray[np.int32]], minimum: int) -> None:
        self._minimum = minimum
        between = np.array([_BETWEEN], np.int32)
        self._tokens = np.concatenate([part for text in texts for part in (text, between)])
        reversed_ = np.ascontiguousarray(self._tokens[::-1])
        self._starts = np.cumsum([0, *(len(text) + 1 for text in texts)])
        self._order = _suffix_order(reversed_)
        self._first = reversed_[self._order]

    @property
    def tokens(self) -> NDArray[np.int32]:
        return self._tokens

    def source(self, place: int) -> CopySource:
        """Of a place among all tokens: which text it is in, and where there."""
        text = int(np.searchsorted(self._starts, place, side="right")) - 1
        return CopySource(text, place - int(self._starts[text]))

    @property
    def bytes(self) -> int:
        return self._tokens.nbytes + self._order.nbytes + self._first.nbytes

    def cursor(self, context: Sequence[int]) -> EarlierCursor | None:
        """What followed the longest suffix of `context` that is found here; None if none is."""
        start, end, length = 0, len(self._order), 0
        for token in reversed(context[-LONGEST_MATCH:]):
            low, high = self._narrowed(start, end, length, token)
            if low == high:
                break
            start, end, length = low, high, length + 1
        if length < self._minimum:
            return None
        after = len(self._tokens) - self._order[start:end]
        after.sort()
        return EarlierCursor(self, length, after[-_MOST_PLACES:])

    def _narrowed(self, start: int, end: int, depth: int, token: int) -> tuple[int, int]:
        """Of the positions in the range, all the same for `depth` tokens, those with `token`."""
        if depth == 0:
            column = self._first
        else:
            before = len(self._tokens) - 1 - depth - self._order[start:end]
            column = np.where(before < 0, _BETWEEN, self._tokens[before])
        low, high = np.searchsorted(column, (token, token + 1))
        return start + int(low), start + int(high)


class EarlierCursor:
    """See CopyCursor. after: positions behind the match, ascending."""

    def __init__(self, index: EarlierIndex, length: int, after: NDArray[np.int32]) -> None:
        self._index = index
        self._tokens = index.tokens
        self._length = length
        self._after = after

    def continuations(self) -> Sequence[Continuation]:
        column = self._tokens[self._after]
        if len(column) == 1:  # most often
            token = int(column[0])
            if token == _BETWEEN:
                return ()
            return (Continuation(token, self._evidence(1, 1), int(self._after[0])),)
        places = self._after[column != _BETWEEN][::-1]
        column = self._tokens[places]
        tokens, last, counts = np.unique(column, return_index=True, return_counts=True)
        order = np.lexsort((last, -counts)).tolist()
        return [
            Continuation(
                int(tokens[i]), self._evidence(int(counts[i]), len(column)), int(places[last[i]])
            )
            for i in order
        ]

    def _evidence(self, count: int, total: int) -> Evidence:
        return Evidence(self._length, count, total)

    def advance(self, token: int) -> None:
        self._after = self._after[self._tokens[self._after] == token] + 1
        self._length += 1

    def source(self, one: Continuation) -> CopySource:
        return self._index.source(one.at)


def _suffix_order(tokens: NDArray[np.int32]) -> NDArray[np.int32]:
    """Starts of all suffixes, ordered by their first LONGEST_MATCH tokens."""
    count = len(tokens)
    ranks = np.unique(tokens, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(ranks, kind="stable")
    depth = 1
    while depth < LONGEST_MATCH:
        following = np.zeros(count, np.int64)  # beyond the end: less than any token
        following[: max(0, count - depth)] = ranks[depth:] + 1
        keys = ranks * (count + 1) + following
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        ranks[order] = np.concatenate(([0], np.cumsum(ordered[1:] != ordered[:-1])))
        depth *= 2
    return order.astype(np.int32)
