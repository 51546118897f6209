"""Earlier texts to copy from: a suffix array, built at once and small, where the chat's own index
grows token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.drafters.copying import Continuation, Evidence

LONGEST_MATCH = 32
_SORTED_DEPTH = 64
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

    def follow(self, texts: Sequence[str]) -> None:
        """Holds exactly these texts, in their order; what is held already is not read again."""
        wanted = list(dict.fromkeys(texts))
        if list(self._tokens) == wanted:
            return
        known = self._tokens
        self._tokens = {
            text: known[text] if text in known else np.array(self._tokenize(text), np.int32)
            for text in wanted
        }
        self._index = EarlierIndex(list(self._tokens.values()), self._minimum) if texts else None

    def cursor(self, context: Sequence[int]) -> EarlierCursor | None:
        return self._index.cursor(context) if self._index is not None else None


class EarlierIndex:
    """Where the last tokens of a chat occurred in earlier texts.

    Suffix array by prefix doubling (Manber and Myers 1993), stopped at _SORTED_DEPTH tokens, which
    is deeper than a match and its draft may go. 12 bytes a token.
    """

    def __init__(self, texts: Sequence[NDArray[np.int32]], minimum: int) -> None:
        self._minimum = minimum
        between = np.array([_BETWEEN], np.int32)
        tokens = np.concatenate([part for text in texts for part in (text, between)])
        self._order = _suffix_order(tokens)
        # Looking beyond the end finds more separators.
        self._tokens = np.concatenate((tokens, np.full(_SORTED_DEPTH, _BETWEEN, np.int32)))
        self._first = tokens[self._order]

    @property
    def bytes(self) -> int:
        return self._tokens.nbytes + self._order.nbytes + self._first.nbytes

    def cursor(self, context: Sequence[int]) -> EarlierCursor | None:
        """What followed the longest suffix of `context` that is found here; None if none is."""
        tail = list(context[-LONGEST_MATCH:])
        found = 0, 0, 0  # length, and the places in order
        low, high = self._minimum, len(tail)
        while low <= high:
            length = (low + high) // 2
            start, end = self._places(tail[len(tail) - length :])
            if start < end:
                found = length, start, end
                low = length + 1
            else:
                high = length - 1
        return EarlierCursor(self, *found) if found[0] else None

    def _places(self, pattern: Sequence[int]) -> tuple[int, int]:
        """Suffixes that begin with the pattern, as a range of the order."""
        start, end = 0, len(self._order)
        for depth, token in enumerate(pattern):
            start, end = self.narrowed(start, end, depth, token)
            if start == end:
                break
        return start, end

    def narrowed(self, start: int, end: int, depth: int, token: int) -> tuple[int, int]:
        """Of the suffixes in the range, which are the same up to `depth`, those that go on so."""
        column = self._first[start:end] if depth == 0 else self.column(start, end, depth)
        low, high = np.searchsorted(column, (token, token + 1))
        return start + int(low), start + int(high)

    def column(self, start: int, end: int, depth: int) -> NDArray[np.int32]:
        """The tokens at `depth` of the suffixes in the range, ascending."""
        return self._tokens[self._order[start:end] + depth]

    def most_recent(self, start: int, end: int, depth: int, token: int) -> int:
        """The last place in the texts where the range goes on with `token`."""
        low, high = self.narrowed(start, end, depth, token)
        return int(self._order[low:high].max())


class EarlierCursor:
    """See CopyCursor."""

    def __init__(self, index: EarlierIndex, length: int, start: int, end: int) -> None:
        self._index = index
        self._length = length
        self._start, self._end = start, end

    def continuations(self) -> Sequence[Continuation]:
        if self._start == self._end or self._length >= _SORTED_DEPTH:
            return ()
        column = self._index.column(self._start, self._end, self._length)
        tokens, counts = np.unique(column[column != _BETWEEN], return_counts=True)
        found = dict(zip(tokens.tolist(), counts.tolist(), strict=True))
        order = sorted(found, key=lambda token: (-found[token], -self._recent(token)))
        total = sum(found.values())
        return [Continuation(token, Evidence(self._length, found[token], total)) for token in order]

    def _recent(self, token: int) -> int:
        return self._index.most_recent(self._start, self._end, self._length, token)

    def advance(self, token: int) -> None:
        if self._start < self._end and self._length < _SORTED_DEPTH:
            self._start, self._end = self._index.narrowed(
                self._start, self._end, self._length, token
            )
            self._length += 1


def _suffix_order(tokens: NDArray[np.int32]) -> NDArray[np.int32]:
    """Starts of all suffixes, ordered by their first _SORTED_DEPTH tokens."""
    count = len(tokens)
    ranks = np.unique(tokens, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(ranks, kind="stable")
    depth = 1
    while depth < _SORTED_DEPTH:
        following = np.zeros(count, np.int64)  # beyond the end: less than any token
        following[: max(0, count - depth)] = ranks[depth:] + 1
        keys = ranks * (count + 1) + following
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        ranks[order] = np.concatenate(([0], np.cumsum(ordered[1:] != ordered[:-1])))
        depth *= 2
    return order.astype(np.int32)
