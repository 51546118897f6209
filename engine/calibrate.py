"""Measures what passes cost on this machine: T(n) of the loaded target."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from engine.llama.context import Context

QUICK_WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)
_PREFIX = 32


def measure_passes(
    context: Context, widths: Sequence[int] = QUICK_WIDTHS, repeats: int = 3
) -> dict[int, float]:
    """Median seconds of a pass by width, widths interleaved. Clears the context."""
    token = max(context.model.vocab.bos, 1)
    widths = [n for n in widths if n <= context.options.max_rows]
    widths = [n for n in widths if n + _PREFIX <= context.length_limit] or [1]
    prefix = min(_PREFIX, context.length_limit - max(widths))
    context.clear()
    if prefix > 0:
        context.feed([token] * prefix)
    seconds: dict[int, list[float]] = {width: [] for width in widths}
    for _ in range(repeats + 1):  # the first pass of each width warms up
        for width in widths:
            started = time.perf_counter()
            context.extend([token] * width)
            seconds[width].append(time.perf_counter() - started)
            context.truncate(prefix)
    context.clear()
    return {width: statistics.median(times[1:]) for width, times in seconds.items()}
