"""How much faster replies were than plain decoding would have been: what the next may expect."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_FEWEST_TOKENS = 32.0
_MEMORY = 0.999
"""Of a token, when one more was written: the last thousand or so count."""


class SpeedRecord:
    """For one kind of text. A geometric mean over replies, each weighted by its tokens, of the time
    that plain decoding takes over the time that was taken."""

    def __init__(self) -> None:
        self._logarithms = 0.0  # of replies, times their tokens
        self._tokens = 0.0
        self._plain = self._taken = self._written = 0.0  # of the present reply

    def add(self, tokens: int, plain: float, taken: float) -> None:
        """A round. plain, taken: seconds."""
        self._plain += plain
        self._taken += taken
        self._written += tokens

    def begin_reply(self) -> None:
        self._logarithms, self._tokens = self._sums()
        self._plain = self._taken = self._written = 0.0

    def _sums(self) -> tuple[float, float]:
        """With the present reply."""
        if self._taken <= 0.0:
            return self._logarithms, self._tokens
        kept, ratio = _MEMORY**self._written, self._plain / self._taken
        logarithms = kept * self._logarithms + self._written * math.log(ratio)
        return logarithms, kept * self._tokens + self._written

    @property
    def speed_up(self) -> float | None:
        """None before enough was written."""
        logarithms, tokens = self._sums()
        return math.exp(logarithms / tokens) if tokens >= _FEWEST_TOKENS else None

    def to_json(self) -> dict[str, Any]:
        logarithms, tokens = self._sums()
        return {"logarithms": round(logarithms, 3), "tokens": round(tokens, 1)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> SpeedRecord:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        record = SpeedRecord()
        record._logarithms, record._tokens = float(content["logarithms"]), float(content["tokens"])
        if not math.isfinite(record._logarithms) or not 0.0 <= record._tokens < math.inf:
            raise ValueError("not a record of speeds")
        return record
