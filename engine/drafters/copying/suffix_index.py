"""Where the last tokens of a text occurred before: a suffix automaton that grows by the token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.data.rounds import CopySource
from engine.drafters.copying.evidence import Continuation, Evidence

_MOST_RENEWED = 64


@dataclass(frozen=True, slots=True)
class Match:
    """The last `length` tokens also end at index `end` (exclusive), earlier in the text."""

    end: int
    length: int


class SuffixIndex:
    """Longest suffix of the text that also occurs earlier, and where it did most recently.

    Online suffix automaton (Blumer et al. 1985): amortised constant work per token. Each state
    also remembers how often its strings occurred and where they last ended; a token renews at most
    _MOST_RENEWED states, so that in very repetitive text short strings are counted too rarely, and
    an older occurrence may stand in for the most recent one.
    """

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum
        self._reset()

    def _reset(self) -> None:
        self.tokens: list[int] = []
        self._match: Match | None = None
        # State 0 is the empty string; state i has the strings that end at _last_end[i] and
        # _count[i] - 1 places before, the longest of _length[i] tokens, and its _link the next
        # shorter ones.
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._last_end = [0]
        self._count = [0]
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

    def cursor(self) -> SuffixCursor | None:
        """What followed the longest match; None if there is none. Valid until the text grows."""
        if self._match is None:
            return None
        return SuffixCursor(self, self._link[self._whole], self._match.length)

    def followers(self, state: int, length: int) -> list[Continuation]:
        """What followed the string of `state` that has this length, see CopyCursor."""
        following, counts = self._next[state], self._count
        total = sum(counts[after] for after in following.values())
        ordered = sorted(
            following.items(), key=lambda item: (-counts[item[1]], -self._last_end[item[1]])
        )
        return [
            Continuation(token, Evidence(length, counts[after], total), self._last_end[after] - 1)
            for token, after in ordered
        ]

    def step(self, state: int, token: int) -> int:
        """The state of the strings of `state` and `token`; -1 if no such text is known."""
        return self._next[state].get(token, -1)

    def shorter(self, state: int) -> tuple[int, int]:
        """The state of the longest shorter suffix, and its length; state -1 below the minimum."""
        state = self._link[state]
        length = self._length[state] if state >= 0 else 0
        return (state, length) if length >= self._minimum else (-1, 0)

    def _append(self, token: int) -> None:
        self.tokens.append(token)
        end = len(self.tokens)
        whole = self._add_state({}, end, end, 1)
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
            dict(self._next[target]),
            self._length[state] + 1,
            self._last_end[target],
            self._count[target],
        )
        self._link[clone] = self._link[target]
        self._link[target] = clone
        while state >= 0 and self._next[state].get(token) == target:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _add_state(self, following: dict[int, int], length: int, last_end: int, count: int) -> int:
        self._next.append(following)
        self._link.append(-1)
        self._length.append(length)
        self._last_end.append(last_end)
        self._count.append(count)
        return len(self._length) - 1

    def _renew(self, state: int, end: int) -> None:
        """The strings of `state`, and every suffix of them that counts, now end at `end`."""
        for _ in range(_MOST_RENEWED):
            if self._length[state] < self._minimum:
                return
            self._last_end[state] = end
            self._count[state] += 1
            state = self._link[state]


class SuffixCursor:
    """See CopyCursor. At the end of the text it goes on where a shorter suffix occurred before.

    So what repeats itself is drafted beyond the end of the text, with its period.
    """

    def __init__(self, index: SuffixIndex, state: int, length: int) -> None:
        self._index = index
        self._state = state
        self._length = length

    def continuations(self) -> Sequence[Continuation]:
        while self._state >= 0:
            found = self._index.followers(self._state, self._length)
            if found:
                return found
            self._state, self._length = self._index.shorter(self._state)
        return ()

    def advance(self, token: int) -> None:
        if self._state >= 0:
            self._state = self._index.step(self._state, token)
            self._length += 1

    def source(self, one: Continuation) -> CopySource:
        return CopySource(None, one.at)
