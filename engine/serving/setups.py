"""Which setup of a target is fastest here: weights repacked or not, and how many threads.

Repacking makes passes over one token faster and, for some formats, prompts twice as slow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.model import Model
from engine.measure.calibrate import Calibration, calibrate
from engine.serving.tuning import Setup, chat_seconds

_CONTEXT = 640
_ROWS = 16
_CLEARLY = 0.97
"""A setup replaces the usual one if it takes less than this fraction of its time."""


@dataclass(frozen=True, slots=True)
class SetupTrial:
    setup: Setup
    calibration: Calibration


def find_setup(
    open_model: Callable[[bool], Model],
    threads: int,
    report: Callable[[float], None],
    abort: AbortFlag,
) -> tuple[Setup, tuple[SetupTrial, ...]]:
    """The fastest for a turn of a chat, and what was measured.

    open_model loads the target with repacking on or off; the models are closed again here.
    """
    counts = thread_counts(threads)
    trials: list[SetupTrial] = []
    for step, repack in enumerate((True, False)):
        report(step / 2)
        with open_model(repack) as model:
            trials.extend(_try(model, Setup(count, repack), abort) for count in counts)
    return fastest(trials), tuple(trials)


def thread_counts(usual: int) -> tuple[int, ...]:
    """The usual number first, then what else is worth a try: all cores, or one left free."""
    logical = os.cpu_count() or usual
    others = (logical, usual - 1 if usual >= _MANY else usual)
    return tuple(dict.fromkeys((usual, *others)))


_MANY = 4


def fastest(trials: Sequence[SetupTrial]) -> Setup:
    """The first trial's setup unless another is clearly faster."""
    best = min(trials, key=lambda trial: chat_seconds(trial.calibration))
    usual = trials[0]
    if chat_seconds(best.calibration) < _CLEARLY * chat_seconds(usual.calibration):
        return best.setup
    return usual.setup


def _try(model: Model, setup: Setup, abort: AbortFlag) -> SetupTrial:
    options = ContextOptions(_CONTEXT, _ROWS, setup.threads)
    with Context(model, options, abort) as context:
        measured = calibrate(context, thorough=False, report=lambda _fraction: None)
    return SetupTrial(setup, measured)
