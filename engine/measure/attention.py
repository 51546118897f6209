"""Which attention is faster here after a long text: llama.cpp's fused kernel, or plain products.

The fused one ("flash attention") saves memory everywhere and time on graphics cards. On a processor
it can take twice as long as plain products once a thousand tokens are cached.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence

from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.model import Model
from engine.llama.repeat import can_repeat, repeat_text

_FED = 32
_COPIES = 23  # 768 tokens in all: a few turns of a chat
_ROOM = 64
_WIDTHS = (1, 4)
_ROUNDS = 4
CLEARLY = 0.97
"""Plain products are chosen if they take less than this fraction of the fused kernel's time."""


def plain_attention_ratio(model: Model, threads: int, abort: AbortFlag) -> float:
    """Time of plain products as a fraction of the fused kernel's. A few seconds; 1 where it cannot
    be measured without reading a long text."""
    if model.has_recurrent_state:  # it has no second sequence to copy from
        return 1.0
    limit = _FED * (_COPIES + 1) + _ROOM
    with contextlib.ExitStack() as opened:
        contexts = []
        for fused in (True, False):
            options = ContextOptions(
                limit, max(_WIDTHS), threads, max_leaves=2, flash_attention=fused
            )
            contexts.append(opened.enter_context(Context(model, options, abort)))
            if not can_repeat(contexts[-1]):
                return 1.0
            contexts[-1].feed([max(model.vocab.bos, 1)] * _FED)
            repeat_text(contexts[-1], _COPIES)
        taken = compared([_passes(context) for context in contexts], _ROUNDS)
    return taken[1] / taken[0]


def _passes(context: Context) -> Callable[[], float]:
    """Seconds of one pass of each width."""
    token = max(context.model.vocab.bos, 1)

    def run() -> float:
        length, started = len(context.tokens), time.perf_counter()
        for width in _WIDTHS:
            context.extend([token] * width)
            context.truncate(length)
        return time.perf_counter() - started

    return run


def compared(runs: Sequence[Callable[[], float]], rounds: int) -> list[float]:
    """Typical time of each, taking turns. A first turn, which also sets up, is not counted."""
    taken: list[list[float]] = [[] for _ in runs]
    for turn in range(rounds + 1):
        for run, times in zip(runs, taken, strict=True):
            seconds = run()
            if turn:
                times.append(seconds)
    return [statistics.median(times) for times in taken]
