"""The speed-up of a mode: its prompts' ratios with the bounds and the noise that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.bench.samples import (
    PLAIN,
    BenchReply,
    BenchSample,
    between,
    passed,
    seconds_per_token,
)
from engine.control.speedup import Repeats, SpeedUp, most_speedup, pass_ratios, speed_up

TOKENS = "tokens a round"
TOKENS_AND_PASSES = "tokens a round and pass times"
"""What a bound is of."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Of a whole run. repeats: of plain decoding. ratios: of passes, by mode."""

    repeats: Repeats
    ratios: Mapping[str, Mapping[int, float]]


def noise_of(samples: Sequence[BenchSample]) -> Noise:
    plain = [sample for sample in samples if sample.mode == PLAIN]
    own = [one for sample in plain for one in sample.passes]
    ratios = {}
    for mode in dict.fromkeys(sample.mode for sample in samples):
        drafted = [s for s in samples if s.mode == mode and mode != PLAIN]
        ratios[mode] = pass_ratios([*own, *(one for sample in drafted for one in sample.passes)])
    return Noise(Repeats.of(sample.plain_measured for sample in plain), ratios)


def speed_of(samples: Sequence[BenchSample], noise: Noise) -> SpeedUp:
    """Of one mode."""
    mode = samples[0].mode
    measured = [sample.measured_speedup for sample in samples]
    if mode == PLAIN:
        return speed_up(measured)
    bounds = [sample.most_speedup(noise.ratios[mode]) for sample in samples]
    return speed_up(measured, bounds, noise.repeats)


def bounded_by(samples: Sequence[BenchSample], speed: SpeedUp) -> str | None:
    if samples[0].mode == PLAIN or speed.most is None:
        return None
    told = any(sample.passes for sample in samples)
    return TOKENS_AND_PASSES if told else TOKENS


@dataclass(frozen=True, slots=True)
class PromptSpeed:
    """Of one prompt. plain_difference: of plain decoding's two replies, as a share."""

    speed: SpeedUp
    plain_difference: float

    @property
    def stands_out(self) -> bool:
        """Whether it is more than what plain decoding differs from itself explains, on this
        prompt."""
        return not self.speed.low <= 1.0 <= self.speed.high


def speed_up_of(drafted: BenchReply, plain: BenchReply, again: BenchReply) -> PromptSpeed | None:
    """Of a reply between two of plain decoding to the same prompt; None where nothing was
    written."""
    before, after = (seconds_per_token(one.finished.stats) for one in (plain, again))
    stats = drafted.finished.stats
    taken = seconds_per_token(stats)
    if min(before, after, taken) <= 0.0 or stats.emitted < 1:
        return None
    own = [passed(trace) for reply in (plain, again) for trace in reply.rounds]
    passes = [passed(trace) for trace in drafted.rounds]
    widths = [rows for rows, _ in passes]
    most = most_speedup(stats.emitted, stats.rounds, widths, pass_ratios([*own, *passes]))
    repeats = Repeats.of([(before, after)])
    speed = speed_up([between(before, after) / taken], [most], repeats)
    return PromptSpeed(speed, repeats.difference or 0.0)
