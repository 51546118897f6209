"""What may be spent on trying drafters that do not seem to pay, so that a change is noticed."""

from __future__ import annotations

_SHARE = 0.01
_REPLY_SHARE = 0.02  # of a reply as long as usual, or of what was written of a longer one
_FIRST = 1.5  # plain rounds
_LARGEST = 6.0
_AFTER_RECALL = 0.5
_FIRST_LENGTH = 64.0
_LENGTH_WEIGHT = 0.2


class ExplorationBudget:
    """In plain rounds: 1 % of all that was written, saved up, and of one reply hardly more: a trial
    would be a large part of a short one. Counts the reply's tokens."""

    def __init__(self) -> None:
        self._saved = _FIRST
        self._usual_length = _FIRST_LENGTH  # of replies, a geometric mean that forgets
        self.written = 0
        self._most = 0

    def begin_reply(self, max_tokens: int) -> None:
        if self.written:
            self._usual_length *= (self.written / self._usual_length) ** _LENGTH_WEIGHT
        self.written, self._most = 0, max_tokens

    def add(self, tokens: int) -> None:
        self.written += tokens
        self._saved = min(_LARGEST, self._saved + _SHARE * tokens)

    @property
    def left(self) -> int:
        """Tokens that the reply may still have."""
        return self._most - self.written

    def spend(self, rounds: float) -> None:
        self._saved -= rounds

    def recall(self) -> None:
        """What is known comes from an earlier load: little has to be tried."""
        self._saved = _AFTER_RECALL

    @property
    def rounds(self) -> float:
        """At most for one trial now."""
        length = max(self.written, min(self._usual_length, self.left))
        return min(self._saved, _REPLY_SHARE * length)
