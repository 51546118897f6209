"""How much faster than plain decoding recent replies were: the prediction for the next one."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from engine.control.speedup import most_speedup
from engine.control.tuning import TUNING, SpeedRecordTuning

_OLD_REPLY = 64.0
"""Tokens that stand for one reply in the sums of the stored format."""

_FURTHEST = math.log(1000.0)
"""A stored logarithm beyond this is damage."""

_TINY = 1e-12  # where a sum of floats counts as zero


class SpeedRecord:
    """For one kind of text: a robust mean of the last replies' speed-ups. That of one reply is the
    time of plain decoding over the time taken, and at most its tokens per round."""

    def __init__(self, tuning: SpeedRecordTuning = TUNING.speed_record) -> None:
        self._tuning = tuning
        self._replies: deque[float] = deque(maxlen=tuning.replies)  # logarithms
        self._plain = self._taken = 0.0  # of the present reply
        self._written = self._rounds = 0

    def add(self, tokens: int, plain: float, taken: float) -> None:
        """A round. plain, taken: seconds."""
        self._plain += plain
        self._taken += taken
        self._written += tokens
        self._rounds += 1

    def begin_reply(self) -> None:
        self._replies.extend(self._present())
        self._plain = self._taken = 0.0
        self._written = self._rounds = 0

    @property
    def of_this_reply(self) -> float | None:
        """None while it is too short."""
        most = most_speedup(self._written, self._rounds)
        is_short = self._written < self._tuning.fewest_tokens
        if most is None or is_short or min(self._plain, self._taken) <= 0.0:
            return None
        return min(self._plain / self._taken, most)

    def _present(self) -> list[float]:
        """The present reply, if it is long enough."""
        found = self.of_this_reply
        return [] if found is None else [math.log(found)]

    def _counted(self) -> list[float]:
        return [*self._replies, *self._present()][-self._tuning.replies :]

    @property
    def speed_up(self) -> float | None:
        """None before enough replies were written."""
        replies = self._counted()
        if len(replies) < self._tuning.fewest_replies:
            return None
        return math.exp(robust_mean(replies, self._tuning.reach))

    def to_json(self) -> dict[str, Any]:
        """With the sums that an earlier format held."""
        replies = [round(one, 4) for one in self._counted()]
        tokens = _OLD_REPLY * len(replies)
        logarithms = round(_OLD_REPLY * sum(replies), 3)
        return {"logarithms": logarithms, "tokens": tokens, "replies": replies}

    @staticmethod
    def from_json(
        content: Mapping[str, Any], tuning: SpeedRecordTuning = TUNING.speed_record
    ) -> SpeedRecord:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        record = SpeedRecord(tuning)
        logarithms, tokens = float(content["logarithms"]), float(content["tokens"])
        if not math.isfinite(logarithms) or not 0.0 <= tokens < math.inf:
            raise ValueError("not a record of speeds")
        if "replies" in content:
            record._replies.extend(float(one) for one in content["replies"])
        elif tokens >= _OLD_REPLY:
            record._replies.append(logarithms / tokens)  # of all of them, as if it were one
        if any(not abs(one) <= _FURTHEST for one in record._replies):
            raise ValueError("not a record of speeds")
        return record


def robust_mean(values: Sequence[float], reach: float = TUNING.speed_record.reach) -> float:
    """Huber's estimate: the mean, but a value further off than `reach` counts as if it were there.

    Where an interval is equally good, its lowest value. One value at least.
    """
    low, high = min(values), max(values)
    for _ in range(50):
        middle = (low + high) / 2
        pull = sum(min(max(value - middle, -reach), reach) for value in values)
        if pull > _TINY:
            low = middle
        else:
            high = middle
    return high
