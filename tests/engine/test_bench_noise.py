"""A bench on machines whose clock is scripted: noise alone, an effect alone, a busy machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from engine.bench.figures import BenchReport, summarise
from engine.bench.recommend import Candidate, Recommendation, recommend
from engine.bench.report import html_report, plain_sentences
from engine.bench.run import Bench
from engine.bench.samples import BenchMode, BenchReply, BenchSample, sample_from_json
from engine.bench.speeds import speed_up_of
from engine.cli.bench_output import report_lines
from engine.data.events import Finished
from engine.data.prompts import TrialPrompt
from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace
from engine.data.stats import StatsCounter

MODE = "recycle auto"
CANDIDATE = Candidate(MODE, "token recycling, auto", "token recycling")
Clock = Callable[[int], float]
"""Seconds of a pass by its number in the run."""


class Machine:
    """Writes `tokens` tokens, a draft of one in each round of the drafting mode.

    kept: every how manieth draft is. wide: T(2) / T(1).
    """

    def __init__(self, clock: Clock, kept: int, wide: float = 1.0, tokens: int = 24) -> None:
        self._clock = clock
        self._kept = kept
        self._wide = wide
        self._tokens = tokens
        self._passes = 0

    def modes(self) -> list[BenchMode]:
        return [
            BenchMode("plain", lambda prompt: self._reply(False)),
            BenchMode(MODE, lambda prompt: self._reply(True)),
        ]

    def _reply(self, drafts: bool) -> BenchReply:
        counter, written = StatsCounter(), 0
        rounds: list[RoundTrace] = []
        while written < self._tokens:
            trace = self._round(len(rounds), drafts)
            rounds.append(trace)
            counter.add(trace)
            written += len(trace.emitted)
        finished = Finished("", (1,) * self._tokens, "length", 7, 0, 0, counter.snapshot())
        return BenchReply(finished, tuple(rounds))

    def _round(self, number: int, drafts: bool) -> RoundTrace:
        kept = drafts and self._kept > 0 and number % self._kept == 0
        proposed = (ProposedToken(1, "x", -1, 1, "recycle", 0.5, None, kept),) if drafts else ()
        emitted = [EmittedToken(1, "x", "bonus", None, 0.5, None, None)] * (1 + kept)
        seconds = self._clock(self._passes) * (self._wide if drafts else 1.0)
        self._passes += 1
        return RoundTrace(
            number, 0, proposed, tuple(emitted), RoundSeconds(0.0, seconds, 0.0), False
        )


def measured(machine: Machine, prompts: int) -> list[BenchSample]:
    bench = Bench(machine.modes(), greedy=True, on_progress=lambda _: None)
    asked = [TrialPrompt(str(number)) for number in range(prompts)]
    return [sample for taken in bench.samples(asked) for sample in taken]


def advised(machine: Machine, prompts: int) -> tuple[BenchReport, Recommendation]:
    report = summarise(measured(machine, prompts))
    return report, recommend(report, [CANDIDATE])


def steady(_: int) -> float:
    return 0.02


def noisy(seed: int, spread: float) -> Clock:
    """Slow for a while, then quick again: neighbouring passes are alike, replies are not."""
    loads = np.exp(spread * np.random.default_rng(seed).standard_normal(10_000))
    return lambda number: float(0.02 * loads[number // 20])


def test_an_effect_on_a_quiet_machine_is_advised_as_it_is() -> None:
    report, advice = advised(Machine(steady, kept=2, wide=1.1), 4)
    figures = report.overall[1]
    assert figures.speedup == pytest.approx(1.5 / 1.1, rel=0.01)
    assert figures.speedup_settled and figures.prompts_needed is None
    assert report.overall[0].plain_difference == pytest.approx(0.0)
    assert (advice.mode, advice.settled) == (MODE, True)


@pytest.mark.parametrize("seed", range(12))
def test_noise_alone_is_not_advised(seed: int) -> None:
    """No draft is kept and passes cost the same: every difference is the machine's."""
    report, advice = advised(Machine(noisy(seed, 0.8), kept=0), 4)
    figures = report.overall[1]
    assert figures.speedup <= 1.0, "one token a round allows no more"
    assert figures.speedup_high <= 1.0
    assert advice.mode is None
    difference = report.overall[0].plain_difference
    assert difference is not None and difference > 0.1


@pytest.mark.parametrize("seed", range(12))
def test_noise_as_large_as_the_effect_is_said_with_what_would_settle_it(seed: int) -> None:
    _, advice = advised(Machine(noisy(seed, 0.8), kept=4, wide=1.1), 3)
    assert advice.mode is None
    assert not advice.settled
    assert "would settle it" in advice.sentence or "would not settle it" in advice.sentence
    assert "Plain decoding's own two replies to a prompt differed by" in advice.sentence


def test_three_percent_accepted_is_never_five_times_as_fast() -> None:
    """The machine is busy whenever plain decoding has its turn."""

    class Busy(Machine):
        def _round(self, number: int, drafts: bool) -> RoundTrace:
            trace = super()._round(number, drafts)
            slow = trace.seconds.target * (1.0 if drafts else 5.1)
            return replace(trace, seconds=RoundSeconds(0.0, slow, 0.0))

    samples = measured(Busy(steady, kept=33), 3)
    drafted = [sample for sample in samples if sample.mode == MODE]
    assert min(sample.measured_speedup for sample in drafted) > 5.0
    report = summarise(samples)
    figures = report.overall[1]
    assert figures.acceptance_rate == pytest.approx(1 / 23)
    assert figures.mean_accepted_length == pytest.approx(24 / 23)
    assert figures.speedup <= figures.speedup_high <= 24 / 23 + 1e-9
    assert max(sample.speedup for sample in samples) <= 24 / 23
    advice = recommend(report, [CANDIDATE])
    assert advice.mode is None and not advice.settled
    assert "even 1,000 prompts would not settle it" in advice.sentence
    said = [advice.sentence, *report_lines(report), html_report(report, "", [])]
    assert not any(re.search(r"[2-9]\.\d+(x|&times;)", text) for text in said)
    assert "the clock said more than its 1.04 tokens a round allow" in advice.sentence


def test_one_reply_between_two_plain_ones() -> None:
    machine = Machine(steady, kept=2, wide=1.1)
    plain, drafting = machine.modes()
    prompt = TrialPrompt("x")
    replies = drafting.reply(prompt), plain.reply(prompt), plain.reply(prompt)
    found = speed_up_of(*replies)
    assert found is not None and found.stands_out
    assert found.speed.mean == pytest.approx(1.5 / 1.1, rel=0.01)
    assert found.plain_difference == pytest.approx(0.0)
    nothing = BenchReply(Finished("", (), "eos", 7, 0, 0, StatsCounter().snapshot()))
    assert speed_up_of(nothing, *replies[1:]) is None
    assert speed_up_of(replies[0], nothing, replies[2]) is None


def test_one_prompt_is_one_case() -> None:
    report, advice = advised(Machine(steady, kept=2), 1)
    assert not report.overall[1].speedup_settled
    assert "on one prompt, which settles nothing" in advice.sentence
    assert advice.mode is None


def test_a_reply_without_a_round_counts_in_no_figure() -> None:
    samples = measured(Machine(steady, kept=2), 3)
    nothing = StatsCounter().snapshot()
    empty = [replace(one, stats=nothing, passes=()) for one in samples[:2]]
    empty[0] = replace(empty[0], plain_seconds_per_token=0.0, plain_measured=(0.0, 0.0))
    assert [one.has_speed for one in empty] == [False, False]
    report = summarise([*empty, *samples[2:]])
    assert [one.prompts for one in report.overall] == [2, 2]
    none = summarise(empty)
    assert none.overall == ()
    assert recommend(none, [CANDIDATE]).sentence == "Plain decoding: nothing else was measured."
    assert json.dumps(none.to_json(), allow_nan=False)
    assert report_lines(none) and html_report(none, "", [])


def test_a_file_from_before_plain_was_asked_twice_still_counts() -> None:
    samples = measured(Machine(steady, kept=2), 3)
    old = [sample.to_json() for sample in samples]
    for one in old:
        del one["plain_measured"], one["measured_speedup"]
    report = summarise([sample_from_json(one) for one in old])
    assert report.overall[1].speedup == pytest.approx(1.5, rel=0.03)
    assert report.overall[0].plain_difference is None
    assert plain_sentences(report) == []


def test_the_bound_says_what_it_is_of() -> None:
    samples = measured(Machine(steady, kept=2, wide=1.2), 3)
    figures = summarise(samples).overall
    assert figures[0].bounded_by is None and figures[0].speedup_most is None
    assert figures[1].bounded_by == "tokens a round and pass times"
    assert figures[1].speedup_most == pytest.approx(1.5 / 1.2, rel=0.01)
    untold = [replace(sample, passes=()) for sample in samples]
    blind = summarise(untold).overall[1]
    assert blind.bounded_by == "tokens a round"
    assert blind.speedup_most == pytest.approx(1.5, rel=0.01)


def test_another_program_s_passes_are_not_ours() -> None:
    samples = [replace(sample, is_peer=True) for sample in measured(Machine(steady, 0), 2)]
    fast = [replace(one, plain_seconds_per_token=0.06) for one in samples if one.mode == MODE]
    assert summarise(fast).overall[0].speedup == pytest.approx(3.0)
