"""How often a drafter that is so sure is right: learned from what the target kept."""

from __future__ import annotations

_PRIOR_WEIGHT = 6.0
_BUCKETS = 10


class KeptChance:
    """From a drafter's confidence to the chance that its token is kept, learned per bucket."""

    def __init__(self) -> None:
        self._kept = [_PRIOR_WEIGHT * (bucket + 0.5) / _BUCKETS for bucket in range(_BUCKETS)]
        self._tried = [_PRIOR_WEIGHT] * _BUCKETS

    def estimate(self, confidence: float) -> float:
        bucket = self._bucket(confidence)
        return self._kept[bucket] / self._tried[bucket]

    def learn(self, confidence: float, kept: float) -> None:
        """kept: whether, or with what chance, the target kept the token."""
        bucket = self._bucket(confidence)
        self._tried[bucket] += 1.0
        self._kept[bucket] += kept

    @staticmethod
    def _bucket(confidence: float) -> int:
        return min(int(confidence * _BUCKETS), _BUCKETS - 1)
