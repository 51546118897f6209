"""Time set aside to try drafters that do not seem to pay, so that a change is noticed."""

from __future__ import annotations

from engine.control.tuning import TUNING, ExplorationTuning


class ExplorationBudget:
    """In plain rounds. It grows with every token that is written, and a trial may take only a small
    fraction of the reply it is in. Also counts the reply's tokens."""

    def __init__(self, tuning: ExplorationTuning = TUNING.exploration) -> None:
        self._tuning = tuning
        self._saved = tuning.at_first
        self._usual_length = tuning.usual_length  # of replies: a moving geometric mean
        self.written = 0
        self._most = 0

    def begin_reply(self, max_tokens: int) -> None:
        if self.written:
            ratio = self.written / self._usual_length
            self._usual_length *= ratio**self._tuning.length_weight
        self.written, self._most = 0, max_tokens

    def add(self, tokens: int) -> None:
        self.written += tokens
        self._saved = min(self._tuning.most, self._saved + self._tuning.fraction * tokens)

    @property
    def left(self) -> int:
        """Tokens that the reply may still have."""
        return self._most - self.written

    def spend(self, rounds: float) -> None:
        self._saved -= rounds

    def recall(self) -> None:
        """Statistics of an earlier load were read: less has to be tried."""
        self._saved = self._tuning.after_recall

    @property
    def rounds(self) -> float:
        """What one trial may take now, at most."""
        length = max(self.written, min(self._usual_length, self.left))
        return min(self._saved, self._tuning.reply_fraction * length)
