"""Where the last tokens of a text occurred before: constant work per appended token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_ORDERS = (3, 4, 6, 8, 12, 16, 24)
_LONGEST_COMPARED = 64


@dataclass(frozen=True, slots=True)
class Match:
    """The last `length` tokens also end at index `end` (exclusive), earlier in the text."""

    end: int
    length: int


class SuffixIndex:
    """Remembers, for a few orders n, where each n-gram last ended.

    The longest order that has an earlier occurrence gives the most recent candidate; comparing
    backwards gives its true length, up to _LONGEST_COMPARED tokens.
    """

    def __init__(self, minimum: int) -> None:
        self._orders = tuple(order for order in _ORDERS if order >= minimum)
        self.tokens: list[int] = []
        self._last_end: dict[tuple[int, ...], int] = {}
        self._previous_end: dict[tuple[int, ...], int] = {}

    def follow(self, text: Sequence[int]) -> None:
        """Makes the index hold exactly `text`: appends what is new, rebuilds if it was edited."""
        if not self._continues(text):
            self.tokens.clear()
            self._last_end.clear()
            self._previous_end.clear()
        self.extend(text)

    def extend(self, text: Sequence[int]) -> None:
        """Appends what `text` has beyond the tokens held; the rest is taken as unchanged."""
        for token in text[len(self.tokens) :]:
            self._append(token)

    def _continues(self, text: Sequence[int]) -> bool:
        return self.tokens == list(text[: len(self.tokens)])

    def _append(self, token: int) -> None:
        self.tokens.append(token)
        end = len(self.tokens)
        for order in self._orders:
            if order > end:
                break
            gram = tuple(self.tokens[end - order :])
            earlier = self._last_end.get(gram)
            if earlier is not None:
                self._previous_end[gram] = earlier
            self._last_end[gram] = end

    def longest_match(self) -> Match | None:
        """The most recent earlier occurrence of the longest indexed suffix; None if none."""
        end = len(self.tokens)
        for order in reversed(self._orders):
            if order > end:
                continue
            earlier = self._previous_end.get(tuple(self.tokens[end - order :]))
            if earlier is not None:
                return Match(earlier, self._common_length(earlier, end))
        return None

    def _common_length(self, first_end: int, second_end: int) -> int:
        length = 0
        limit = min(first_end, _LONGEST_COMPARED)
        tokens = self.tokens
        while length < limit and tokens[first_end - 1 - length] == tokens[second_end - 1 - length]:
            length += 1
        return length
