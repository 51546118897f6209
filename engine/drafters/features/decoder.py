"""The small decoder that drafts from features, as its drafter sees it, and what its passes cost."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.data.draft_cost import DraftCost

ROWS_AT_ONCE = 64
_MEASURED_STEPS = 5

DraftStep = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Logits [vocabulary] after an entry, valid until the next one, and the next entry's state."""


class Decoder(Protocol):
    """See engine.llama.draft_layer: Eagle3Context, MtpContext."""

    hidden_size: int
    length: int

    def encode(self, features: NDArray[np.float32]) -> NDArray[np.float32]: ...

    def feed(self, tokens: Sequence[int], states: NDArray[np.float32]) -> None: ...

    def draft(self, token: int, state: NDArray[np.float32]) -> DraftStep: ...

    def truncate(self, length: int) -> None: ...

    def close(self) -> None: ...


def decoder_cost(decoder: Decoder, width: int) -> DraftCost:
    """width: of the features. They are nothing here, and cost what others do. Empties its cache."""
    tokens, features = [0] * ROWS_AT_ONCE, np.zeros((ROWS_AT_ONCE, width), np.float32)
    decoder.truncate(0)
    decoder.feed(tokens, decoder.encode(features))  # sets things up
    decoder.truncate(0)
    started = time.perf_counter()
    states = decoder.encode(features)
    decoder.feed(tokens, states)
    per_token = (time.perf_counter() - started) / ROWS_AT_ONCE
    steps = []
    for _ in range(_MEASURED_STEPS):
        started = time.perf_counter()
        decoder.draft(0, states[0])
        steps.append(time.perf_counter() - started)
        decoder.truncate(ROWS_AT_ONCE)
    decoder.truncate(0)
    return DraftCost(statistics.median(steps), per_token)
