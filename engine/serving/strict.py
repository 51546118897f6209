"""Strict numerics: the widest pass whose logits equal one-token passes bit for bit.

Kernels differ by the number of rows, so a verify pass may round differently from plain decoding
and flip a near-tie. Below the width found here it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.model import Model
from engine.llama.native_context import PREFILL_CHUNK

WIDEST = 16
_DEPTHS = (24, 505)  # attention changes kernels above 512 cached tokens: cross that line too
_TRIAL_CONTEXT = 640


@dataclass(frozen=True, slots=True)
class StrictSetup:
    """width: rows per verify pass at most. repack, flash_attention: the setup that reaches it."""

    width: int
    repack: bool
    flash_attention: bool


def find_strict_setup(
    open_model: Callable[[bool], Model], threads: int, report: Callable[[float], None]
) -> StrictSetup:
    """Tries weight repacking and flash attention on and off; the widest exact pass wins.

    open_model loads the target with repacking on or off; the models are closed again here.
    """
    best = StrictSetup(0, True, True)
    for step, repack in enumerate((True, False)):
        with open_model(repack) as model:
            for half, flash in enumerate((True, False)):
                report((2 * step + half) / 4)
                width = exact_width(model, threads, flash_attention=flash)
                if width > best.width:
                    best = StrictSetup(width, repack, flash)
        if best.width == WIDEST:
            break
    return best


def exact_width(
    model: Model,
    threads: int,
    *,
    flash_attention: bool,
    widest: int = WIDEST,
    depths: Sequence[int] = _DEPTHS,
) -> int:
    """The largest n <= widest such that passes of 1..n rows agree bit for bit at every depth.

    depths: tokens that are cached before the compared passes.
    """
    options = ContextOptions(_TRIAL_CONTEXT, WIDEST, threads, flash_attention=flash_attention)
    tokens = _trial_tokens(model.vocab.size)
    with Context(model, options, AbortFlag()) as context:
        return min(_exact_width_at(context, tokens, depth, widest) for depth in depths)


def _exact_width_at(context: Context, tokens: list[int], depth: int, widest: int) -> int:
    context.clear()
    for start in range(0, depth, PREFILL_CHUNK):
        context.feed(tokens[start : min(start + PREFILL_CHUNK, depth)])
    following = tokens[depth : depth + WIDEST]
    single = np.concatenate([context.extend([token]).copy() for token in following])
    width = 1
    for candidate in range(2, widest + 1):
        context.truncate(depth)
        for start in range(0, WIDEST, candidate):
            chunk = following[start : start + candidate]
            rows = context.extend(chunk)
            if not np.array_equal(rows, single[start : start + len(chunk)]):
                return width
        width = candidate
    return width


def _trial_tokens(vocabulary_size: int) -> list[int]:
    """A fixed, varied sequence of ordinary token ids."""
    generator = np.random.Generator(np.random.Philox(7))
    high = min(vocabulary_size, 20_000)
    return [int(token) for token in generator.integers(high // 4, high, _TRIAL_CONTEXT)]
