"""Samples to figures: speed-ups prompt by prompt, within what is possible, and their intervals."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.bench.oracles import OracleLosses, pooled
from engine.bench.samples import PLAIN, BenchSample
from engine.bench.speeds import Noise, bounded_by, noise_of, speed_of
from engine.control.speedup import speed_up

REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Ratio:
    """A geometric mean over prompts, with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ModeFigures:
    """A mode over some prompts. speedup: geometric mean of plain's time per token over this
    mode's, prompt by prompt, with a 95 % interval, within what is possible
    (engine/control/speedup.py).

    speedup_most: the bound. bounded_by: what it is of: tokens a round, and the passes' times where
    the mode tells them. speedup_settled: whether the interval leaves out plain decoding's speed;
    prompts_needed: about how many would show an effect of this size, None for more than can be
    asked. clock_speedup: without the bound. plain_difference: of plain decoding's two replies to a
    prompt, as a share.

    tokens_per_second: median over prompts, prefill apart. acceptance_by_position: accepted over
    verified at depth 1, 2, ... Shares and overhead are None where a mode does not tell them.
    largest_gap: of the first differences from plain's text, in logits. memory_bytes: the largest
    resident size of the process seen (memory-mapped weights included, which processes share).
    oracle_share: of the speed that the best schedule would have reached; oracle_speedup: that one
    over plain decoding (engine/control/oracle.py says what is assumed). oracle_losses: what parts
    of the time it would have saved. predicted_speedup: as it was expected before the first prompt.
    """

    mode: str
    prompts: int
    tokens_per_second: float
    prefill_tokens_per_second: float
    speedup: float
    speedup_low: float
    speedup_high: float
    acceptance_rate: float | None
    acceptance_by_position: tuple[float, ...]
    mean_accepted_length: float
    draft_share: float | None
    target_share: float | None
    overhead_ms_per_token: float | None
    same_text: int | None
    largest_gap: float | None
    memory_bytes: int | None
    is_peer: bool
    oracle_share: float | None
    oracle_speedup: float | None
    oracle_losses: OracleLosses | None
    predicted_speedup: float | None
    speedup_most: float | None = None
    bounded_by: str | None = None
    speedup_settled: bool = True
    prompts_needed: int | None = None
    clock_speedup: float | None = None
    plain_difference: float | None = None


@dataclass(frozen=True, slots=True)
class PeerComparison:
    """The fastest of our modes against the fastest setting of the other program, prompt by prompt.

    Both are chosen by their mean over all prompts.
    """

    ours: str
    theirs: str
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class BenchReport:
    """pass_seconds: T(n), median seconds of a target pass of n rows, of all rounds measured."""

    overall: tuple[ModeFigures, ...]
    by_category: dict[str, tuple[ModeFigures, ...]]
    peer: PeerComparison | None
    pass_seconds: dict[int, float]
    samples: tuple[BenchSample, ...]

    def figures(self, mode: str) -> ModeFigures | None:
        return next((one for one in self.overall if one.mode == mode), None)

    def to_json(self) -> dict[str, Any]:
        """The figures part of the fixed JSON of `forerun bench`."""
        return {
            "version": REPORT_VERSION,
            "overall": [asdict(figures) for figures in self.overall],
            "by_category": {
                category: [asdict(figures) for figures in modes]
                for category, modes in self.by_category.items()
            },
            "peer": None if self.peer is None else asdict(self.peer),
            "pass_seconds": {str(rows): value for rows, value in self.pass_seconds.items()},
            "samples": [sample.to_json() for sample in self.samples],
        }


def summarise(samples: Sequence[BenchSample]) -> BenchReport:
    """Figures of all prompts and of each category; there must be at least one sample.

    A reply without a token has no speed and counts in no figure.
    """
    timed = [sample for sample in samples if sample.has_speed]
    categories = dict.fromkeys(sample.category for sample in timed)
    noise = noise_of(timed)
    overall = _figures(timed, noise)
    return BenchReport(
        overall=overall,
        by_category={
            category: _figures([one for one in timed if one.category == category], noise)
            for category in categories
        },
        peer=_compare_peers(overall, timed),
        pass_seconds=_pass_seconds(samples),
        samples=tuple(samples),
    )


def compare(samples: Sequence[BenchSample], ours: str, theirs: str) -> Ratio:
    """How much faster one mode is than another, on the prompts that both answered."""
    times = {one.prompt: one.seconds_per_token for one in samples if one.mode == theirs}
    pairs = [one for one in samples if one.mode == ours and one.prompt in times]
    found = speed_up([times[one.prompt] / one.seconds_per_token for one in pairs])
    return Ratio(found.mean, found.low, found.high)


def _compare_peers(
    overall: Sequence[ModeFigures], samples: Sequence[BenchSample]
) -> PeerComparison | None:
    ours = [one for one in overall if not one.is_peer and one.mode != PLAIN]
    theirs = [one for one in overall if one.is_peer]
    if not ours or not theirs:
        return None
    best = max(ours, key=lambda one: one.speedup).mode
    best_peer = max(theirs, key=lambda one: one.speedup).mode
    return PeerComparison(best, best_peer, compare(samples, best, best_peer))


def _pass_seconds(samples: Sequence[BenchSample]) -> dict[int, float]:
    seen: dict[int, list[float]] = {}
    for sample in samples:
        for rows, seconds in sample.passes:
            seen.setdefault(rows, []).append(seconds)
    return {rows: statistics.median(seen[rows]) for rows in sorted(seen)}


def _figures(samples: Sequence[BenchSample], noise: Noise) -> tuple[ModeFigures, ...]:
    by_mode: dict[str, list[BenchSample]] = {}
    for sample in samples:
        by_mode.setdefault(sample.mode, []).append(sample)
    return tuple(_mode_figures(mode, taken, noise) for mode, taken in by_mode.items())


def _mode_figures(mode: str, samples: Sequence[BenchSample], noise: Noise) -> ModeFigures:
    speedup = speed_of(samples, noise)
    seconds = _total(samples, lambda one: one.stats.decode_seconds)
    emitted = sum(sample.stats.emitted for sample in samples)
    proposed = sum(sample.stats.proposed for sample in samples)
    accepted = sum(sample.stats.accepted for sample in samples)
    rounds = max(1, sum(sample.stats.rounds for sample in samples))
    told = any(sample.stats.target_seconds for sample in samples)
    same = [sample.same_text for sample in samples if sample.same_text is not None]
    predicted = [sample.predicted for sample in samples if sample.predicted is not None]
    memory = [sample.memory_bytes for sample in samples if sample.memory_bytes is not None]
    oracle = pooled([sample.oracle for sample in samples if sample.oracle is not None])
    return ModeFigures(
        mode=mode,
        prompts=len(samples),
        tokens_per_second=statistics.median(1.0 / one.seconds_per_token for one in samples),
        prefill_tokens_per_second=_prefill_rate(samples),
        speedup=speedup.mean,
        speedup_low=speedup.low,
        speedup_high=speedup.high,
        acceptance_rate=accepted / proposed if proposed else None,
        acceptance_by_position=_by_position(samples),
        mean_accepted_length=emitted / rounds,
        draft_share=_total(samples, lambda one: one.stats.draft_seconds) / seconds
        if told
        else None,
        target_share=_total(samples, lambda one: one.stats.target_seconds) / seconds
        if told
        else None,
        overhead_ms_per_token=_overhead(samples) if told else None,
        same_text=sum(same) if same else None,
        largest_gap=_largest_gap(samples),
        memory_bytes=max(memory, default=None),
        is_peer=samples[0].is_peer,
        oracle_share=None if oracle is None else oracle.share,
        oracle_speedup=None if oracle is None else oracle.best_speed_up,
        oracle_losses=None if oracle is None else oracle.losses,
        predicted_speedup=speed_up(predicted).mean if predicted else None,
        speedup_most=speedup.most if mode != PLAIN else None,
        bounded_by=bounded_by(samples, speedup),
        speedup_settled=speedup.settled or mode == PLAIN,
        prompts_needed=None if speedup.settled or mode == PLAIN else speedup.needed,
        clock_speedup=speedup.clock,
        plain_difference=noise.repeats.difference if mode == PLAIN else None,
    )


def _total(samples: Sequence[BenchSample], part: Callable[[BenchSample], float]) -> float:
    return sum(part(sample) for sample in samples)


def _prefill_rate(samples: Sequence[BenchSample]) -> float:
    seconds = _total(samples, lambda one: one.stats.prefill_seconds)
    return sum(sample.prompt_tokens for sample in samples) / max(seconds, 1e-9)


def _overhead(samples: Sequence[BenchSample]) -> float:
    return 1e3 * statistics.median(
        sample.stats.overhead_seconds / max(1, sample.stats.emitted) for sample in samples
    )


def _largest_gap(samples: Sequence[BenchSample]) -> float | None:
    gaps = [one.difference.gap for one in samples if one.difference is not None]
    return max((gap for gap in gaps if gap is not None), default=None)


def _by_position(samples: Sequence[BenchSample]) -> tuple[float, ...]:
    deepest = max(len(sample.stats.proposed_by_position) for sample in samples)
    rates = []
    for depth in range(deepest):
        counts = [
            (one.stats.accepted_by_position[depth], one.stats.proposed_by_position[depth])
            for one in samples
            if len(one.stats.proposed_by_position) > depth
        ]
        rates.append(sum(count[0] for count in counts) / max(1, sum(count[1] for count in counts)))
    return tuple(rates)
