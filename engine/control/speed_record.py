"""How much faster replies were than plain decoding would have been: what the next may expect."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from engine.control.speedup import most_speedup

_FEWEST_TOKENS = 16
"""A shorter reply says little and does not count."""

_FEWEST_REPLIES = 3
"""Of fewer, none can be told to be an odd one."""

_REPLIES = 16
"""The last so many count, each as much as any other."""

_REACH = math.log(1.25)
"""A reply that is further from the others than this pulls no harder."""


class SpeedRecord:
    """For one kind of text. Of each reply the time that plain decoding takes over the time that was
    taken, within what its tokens a round allow; of the last replies together a robust mean."""

    def __init__(self) -> None:
        self._replies: deque[float] = deque(maxlen=_REPLIES)  # logarithms
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
        if most is None or self._written < _FEWEST_TOKENS or min(self._plain, self._taken) <= 0.0:
            return None
        return min(self._plain / self._taken, most)

    def _present(self) -> list[float]:
        """The present reply, if it counts by now."""
        found = self.of_this_reply
        return [] if found is None else [math.log(found)]

    def _counted(self) -> list[float]:
        return [*self._replies, *self._present()][-_REPLIES:]

    @property
    def speed_up(self) -> float | None:
        """None before enough replies were written."""
        replies = self._counted()
        return math.exp(robust_mean(replies)) if len(replies) >= _FEWEST_REPLIES else None

    def to_json(self) -> dict[str, Any]:
        """With the sums that records were before they held replies."""
        replies = [round(one, 4) for one in self._counted()]
        tokens = _OLD_REPLY * len(replies)
        logarithms = round(_OLD_REPLY * sum(replies), 3)
        return {"logarithms": logarithms, "tokens": tokens, "replies": replies}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> SpeedRecord:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        record = SpeedRecord()
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


_OLD_REPLY = 64.0
"""Tokens that stand for a reply in sums of all tokens."""

_FURTHEST = math.log(1000.0)


def robust_mean(values: Sequence[float]) -> float:
    """Huber's estimate: the mean, but for values far off, which pull as those at _REACH do.

    Where several places are as good, the lowest. One value at least.
    """
    low, high = min(values), max(values)
    for _ in range(50):
        middle = (low + high) / 2
        pull = sum(min(max(value - middle, -_REACH), _REACH) for value in values)
        if pull > _TINY:
            low = middle
        else:
            high = middle
    return high


_TINY = 1e-12
