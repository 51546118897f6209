"""Where the time of a round goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from engine.data.rounds import RoundSeconds

Part = Literal["draft", "target"]


class RoundClock:
    """Runs from the end of one round to the end of the next: what the consumer takes is "other"."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._parts: dict[Part, float] = {"draft": 0.0, "target": 0.0}

    @contextmanager
    def measuring(self, part: Part) -> Iterator[None]:
        """The block's time counts for that part."""
        entered = time.perf_counter()
        try:
            yield
        finally:
            self._parts[part] += time.perf_counter() - entered

    def finish_round(self) -> RoundSeconds:
        now = time.perf_counter()
        draft, target = self._parts["draft"], self._parts["target"]
        seconds = RoundSeconds(draft, target, max(0.0, now - self._started - draft - target))
        self._started = now
        self._parts = {"draft": 0.0, "target": 0.0}
        return seconds
