"""Where the last tokens of a text occurred before: a suffix automaton that grows by the token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_RENEWED = 64


@dataclass(frozen=True, slots=True)
class Match:
    """The last `length` tokens also end at index `end` (exclusive), earlier in the text."""

    end: int
    length: int


class SuffixIndex:
    """Longest suffix of the text that also occurs earlier, and where it did most recently.

    Online suffix automaton (Blumer et al. 1985): amortised constant work per token. Each state
    also remembers where its strings last ended; a token renews at most _MOST_RENEWED states, so
    that in very repetitive text an older occurrence may stand in for the most recent one.
    """

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum
        self._reset()

    def _reset(self) -> None:
        self.tokens: list[int] = []
        self._match: Match | None = None
        # State 0 is the empty string; state i has the strings that end at _last_end[i], the
        # longest of _length[i] tokens, and its _link the next shorter ones.
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._last_end = [0]
        self._whole = 0

    def follow(self, text: Sequence[int]) -> None:
        """Makes the index hold exactly `text`: appends what is new, rebuilds if it was edited."""
        if self.tokens != list(text[: len(self.tokens)]):
            self._reset()
        self.extend(text)

    def extend(self, text: Sequence[int]) -> None:
        """Appends what `text` has beyond the tokens held; the rest is taken as unchanged."""
        for token in text[len(self.tokens) :]:
            self._append(token)

    def longest_match(self) -> Match | None:
        """The longest suffix of `minimum` tokens or more that occurred earlier; None if none."""
        return self._match

    def _append(self, token: int) -> None:
        self.tokens.append(token)
        end = len(self.tokens)
        whole = self._add_state({}, end, end)
        state = self._whole
        while state >= 0 and token not in self._next[state]:
            self._next[state][token] = whole
            state = self._link[state]
        self._link[whole] = 0 if state < 0 else self._reached(state, token)
        self._whole = whole
        earlier = self._link[whole]
        length = self._length[earlier]
        matched = length >= self._minimum
        self._match = Match(self._last_end[earlier], length) if matched else None
        self._renew(earlier, end)

    def _reached(self, state: int, token: int) -> int:
        """The state of `state`'s longest string and `token`, split off where it shares one."""
        target = self._next[state][token]
        if self._length[target] == self._length[state] + 1:
            return target
        clone = self._add_state(
            dict(self._next[target]), self._length[state] + 1, self._last_end[target]
        )
        self._link[clone] = self._link[target]
        self._link[target] = clone
        while state >= 0 and self._next[state].get(token) == target:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _add_state(self, following: dict[int, int], length: int, last_end: int) -> int:
        self._next.append(following)
        self._link.append(-1)
        self._length.append(length)
        self._last_end.append(last_end)
        return len(self._length) - 1

    def _renew(self, state: int, end: int) -> None:
        """The strings of `state`, and every suffix of them that counts, now end at `end`."""
        for _ in range(_MOST_RENEWED):
            if self._length[state] < self._minimum:
                return
            self._last_end[state] = end
            state = self._link[state]
