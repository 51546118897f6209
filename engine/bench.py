"""Measures modes against plain decoding: every prompt in every mode, interleaved.

Ratios come from one run in which the modes take turns (A B C A B C), so that a machine whose
speed drifts treats all of them alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.errors import BadOptionError
from engine.events import Finished
from engine.prompts import TrialPrompt
from engine.stats import Stats

PLAIN = "plain"
_RESAMPLES = 2000
_WARM_UP = TrialPrompt("Say hello in three languages.")  # not counted, and none of the prompts


@dataclass(frozen=True, slots=True)
class BenchMode:
    """name: as shown. reply: produces one reply to a prompt, with everything prefilled anew."""

    name: str
    reply: Callable[[TrialPrompt], Finished]


@dataclass(frozen=True, slots=True)
class BenchSample:
    """One reply. same_text: equal to plain's, None for plain itself."""

    mode: str
    prompt: str
    category: str
    stats: Stats
    prompt_tokens: int
    same_text: bool | None

    @property
    def seconds_per_token(self) -> float:
        return self.stats.decode_seconds / max(1, self.stats.emitted)


@dataclass(frozen=True, slots=True)
class ModeFigures:
    """A mode over some prompts. speedup: geometric mean of plain's time per token over this
    mode's, prompt by prompt, with a 95 % bootstrap interval over prompts."""

    mode: str
    prompts: int
    tokens_per_second: float
    prefill_tokens_per_second: float
    speedup: float
    speedup_low: float
    speedup_high: float
    acceptance_rate: float | None
    mean_accepted_length: float
    draft_share: float
    target_share: float
    overhead_ms_per_token: float
    same_text: int | None


@dataclass(frozen=True, slots=True)
class BenchReport:
    overall: tuple[ModeFigures, ...]
    by_category: dict[str, tuple[ModeFigures, ...]]
    samples: tuple[BenchSample, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "overall": [asdict(figures) for figures in self.overall],
            "by_category": {
                category: [asdict(figures) for figures in modes]
                for category, modes in self.by_category.items()
            },
            "samples": [
                {
                    "mode": sample.mode,
                    "prompt": sample.prompt[:120],
                    "category": sample.category,
                    "prompt_tokens": sample.prompt_tokens,
                    "same_text": sample.same_text,
                    "stats": sample.stats.to_json(),
                }
                for sample in self.samples
            ],
        }


def run_bench(
    modes: Sequence[BenchMode],
    prompts: Sequence[TrialPrompt],
    on_sample: Callable[[BenchSample], None],
) -> BenchReport:
    """The first mode must be plain. BadOptionError when a prompt occurs twice."""
    if modes[0].name != PLAIN:
        raise BadOptionError("the first mode of a bench is plain decoding")
    if len({mode.name for mode in modes}) < len(modes):
        raise BadOptionError("two modes have the same name; was a drafter given twice?")
    if len({prompt.text for prompt in prompts}) < len(prompts):
        raise BadOptionError("a prompt occurs twice; what was learned from it would count twice")
    for mode in modes:
        mode.reply(_WARM_UP)
    samples: list[BenchSample] = []
    for index, prompt in enumerate(prompts):
        taken: dict[str, Finished] = {}
        # Another mode starts each time: whoever comes first finds a cooler machine.
        for offset in range(len(modes)):
            mode = modes[(index + offset) % len(modes)]
            taken[mode.name] = mode.reply(prompt)
        plain_tokens = taken[PLAIN].tokens
        for mode in modes:
            sample = _sample(mode.name, prompt, taken[mode.name], plain_tokens)
            samples.append(sample)
            on_sample(sample)
    return summarise(samples)


def _sample(
    mode: str, prompt: TrialPrompt, reply: Finished, plain_tokens: tuple[int, ...]
) -> BenchSample:
    return BenchSample(
        mode=mode,
        prompt=prompt.text,
        category=prompt.category,
        stats=reply.stats,
        prompt_tokens=reply.prompt_tokens,
        same_text=None if mode == PLAIN else reply.tokens == plain_tokens,
    )


def summarise(samples: Sequence[BenchSample]) -> BenchReport:
    """Figures of all prompts and of each category."""
    categories = dict.fromkeys(sample.category for sample in samples)
    return BenchReport(
        overall=_figures(samples),
        by_category={
            category: _figures([sample for sample in samples if sample.category == category])
            for category in categories
        },
        samples=tuple(samples),
    )


def _figures(samples: Sequence[BenchSample]) -> tuple[ModeFigures, ...]:
    by_mode: dict[str, list[BenchSample]] = {}
    for sample in samples:
        by_mode.setdefault(sample.mode, []).append(sample)
    plain = {sample.prompt: sample.seconds_per_token for sample in by_mode[PLAIN]}
    return tuple(_mode_figures(mode, taken, plain) for mode, taken in by_mode.items())


def _mode_figures(
    mode: str, samples: Sequence[BenchSample], plain: dict[str, float]
) -> ModeFigures:
    ratios = [plain[sample.prompt] / sample.seconds_per_token for sample in samples]
    low, high = _bootstrap_interval(ratios)
    emitted = sum(sample.stats.emitted for sample in samples)
    seconds = sum(sample.stats.decode_seconds for sample in samples)
    proposed = sum(sample.stats.proposed for sample in samples)
    accepted = sum(sample.stats.accepted for sample in samples)
    prefill = sum(sample.stats.prefill_seconds for sample in samples)
    same = [sample.same_text for sample in samples if sample.same_text is not None]
    return ModeFigures(
        mode=mode,
        prompts=len(samples),
        tokens_per_second=emitted / seconds,
        prefill_tokens_per_second=sum(sample.prompt_tokens for sample in samples) / prefill,
        speedup=_geometric_mean(ratios),
        speedup_low=low,
        speedup_high=high,
        acceptance_rate=accepted / proposed if proposed else None,
        mean_accepted_length=emitted / sum(sample.stats.rounds for sample in samples),
        draft_share=sum(sample.stats.draft_seconds for sample in samples) / seconds,
        target_share=sum(sample.stats.target_seconds for sample in samples) / seconds,
        overhead_ms_per_token=1e3
        * statistics.median(
            sample.stats.overhead_seconds / max(1, sample.stats.emitted) for sample in samples
        ),
        same_text=sum(same) if same else None,
    )


def _geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def _bootstrap_interval(ratios: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the geometric mean when prompts are drawn anew."""
    logs = np.log(np.asarray(ratios))
    generator = np.random.Generator(np.random.Philox(2000))
    picks = generator.integers(0, len(logs), (_RESAMPLES, len(logs)))
    means = np.exp(logs[picks].mean(axis=1))
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))
