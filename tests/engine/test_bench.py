"""The bench: order of the modes, ratios prompt by prompt, intervals, refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from engine.bench.figures import BenchReport, compare, summarise
from engine.bench.modes import (
    AUTO,
    BenchSettings,
    BenchStoppedError,
    EngineUnderTest,
    drafting_modes,
    length_groups,
    plain_mode,
)
from engine.bench.oracles import OracleLosses
from engine.bench.report import oracle_sentences, prediction_sentences
from engine.bench.run import Bench, BenchProgress, probe_prompts
from engine.bench.samples import BenchMode, BenchReply, sample_from_json
from engine.data.errors import BadOptionError
from engine.data.events import Finished
from engine.data.prompts import TrialPrompt
from engine.data.request import SamplingParams
from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace
from engine.data.stats import Stats, StatsCounter
from tests.fakes_engine import FakeEngine

PROMPTS = (TrialPrompt("one", "code"), TrialPrompt("two", "code"), TrialPrompt("three", "prose"))


class ScriptedMode:
    """Replies in a fixed time per token; writes down when it was asked."""

    def __init__(self, name: str, seconds: dict[str, float], log: list[str]) -> None:
        self._name = name
        self._seconds = seconds
        self._log = log

    def mode(self, is_peer: bool = False) -> BenchMode:
        return BenchMode(self._name, self._reply, gap=lambda prompt, tokens: 0.25, is_peer=is_peer)

    def _reply(self, prompt: TrialPrompt) -> BenchReply:
        self._log.append(self._name)
        stats = Stats(
            emitted=10,
            rounds=2,
            proposed=8,
            accepted=4,
            prefill_seconds=0.5,
            decode_seconds=10 * self._seconds.get(prompt.text, 1.0),
            proposed_by_position=(5, 3),
            accepted_by_position=(4, 0),
        )
        tokens = (1, 2) if self._name != "odd" else (1, 3)
        finished = Finished("", tokens, "length", 7, 0, 0, stats)
        return BenchReply(finished, memory_bytes=len(self._name))


PLAIN = {"one": 1.0, "two": 1.0, "three": 1.0}
FAST = {"one": 0.5, "two": 0.25, "three": 1.0}


def modes_of(seconds: dict[str, dict[str, float]], log: list[str]) -> list[BenchMode]:
    return [
        ScriptedMode(name, times, log).mode(is_peer=name.startswith("llama-server"))
        for name, times in seconds.items()
    ]


def measure(
    seconds: dict[str, dict[str, float]], *, greedy: bool = True
) -> tuple[BenchReport, list[str], list[BenchProgress]]:
    log: list[str] = []
    told: list[BenchProgress] = []
    bench = Bench(modes_of(seconds, log), greedy=greedy, on_progress=told.append)
    samples = [sample for taken in bench.samples(PROMPTS) for sample in taken]
    return summarise(samples), log, told


def test_modes_take_turns_and_another_one_starts_each_time() -> None:
    _, log, _ = measure({"plain": PLAIN, "fast": FAST})
    warm_up, counted = log[:2], log[2:]
    assert sorted(warm_up) == ["fast", "plain"]
    assert counted == ["plain", "fast", "plain"] * 3
    _, log, _ = measure({"plain": PLAIN, "fast": FAST, "slow": PLAIN})
    one, two = ["plain", "fast", "slow", "plain"], ["plain", "slow", "fast", "plain"]
    assert log[3:] == [*one, *two, *one]


def test_progress_counts_replies_and_guesses_the_rest() -> None:
    _, _, told = measure({"plain": PLAIN, "fast": FAST})
    assert [one.done for one in told] == [0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9]
    assert {one.total for one in told} == {9}
    assert told[0].seconds_left is None
    assert told[-1].seconds_left == 0.0


def test_speed_up_is_the_geometric_mean_of_ratios_prompt_by_prompt() -> None:
    report, _, _ = measure({"plain": PLAIN, "fast": FAST})
    plain, fast = report.overall
    assert plain.speedup == pytest.approx(1.0)
    assert fast.speedup == pytest.approx((2.0 * 4.0 * 1.0) ** (1 / 3))
    assert fast.speedup_low <= fast.speedup <= fast.speedup_high
    assert fast.acceptance_rate == pytest.approx(0.5)
    assert fast.acceptance_by_position == pytest.approx((0.8, 0.0))
    assert fast.mean_accepted_length == pytest.approx(5.0)
    assert fast.tokens_per_second == pytest.approx(2.0)
    assert fast.prefill_tokens_per_second == pytest.approx(14.0)
    assert fast.memory_bytes == 4
    by_mode = {figures.mode: figures for figures in report.by_category["code"]}
    assert by_mode["fast"].speedup == pytest.approx(8.0**0.5)


def test_text_that_differs_from_plain_is_counted_with_the_gap_there() -> None:
    report, _, _ = measure({"plain": PLAIN, "fast": FAST, "odd": FAST})
    plain, fast, odd = report.overall
    assert (plain.same_text, fast.same_text, odd.same_text) == (None, 3, 0)
    assert (fast.largest_gap, odd.largest_gap) == (None, 0.25)
    assert {s.difference.position for s in report.samples if s.difference is not None} == {1}


def test_sampled_text_is_not_compared() -> None:
    report, _, _ = measure({"plain": PLAIN, "odd": FAST}, greedy=False)
    assert [figures.same_text for figures in report.overall] == [None, None]


def test_the_best_of_ours_is_compared_with_the_best_of_theirs() -> None:
    slow = {"one": 2.0, "two": 2.0, "three": 2.0}
    report, _, _ = measure(
        {
            "plain": PLAIN,
            "slow": slow,
            "fast": FAST,
            "llama-server a": slow,
            "llama-server b": PLAIN,
        }
    )
    assert report.peer is not None
    assert (report.peer.ours, report.peer.theirs) == ("fast", "llama-server b")
    assert report.peer.ratio.mean == pytest.approx(2.0)
    assert compare(report.samples, "slow", "llama-server a").mean == pytest.approx(1.0)
    assert measure({"plain": PLAIN, "fast": FAST})[0].peer is None


def test_stopping_early_keeps_complete_prompts() -> None:
    bench = Bench(modes_of({"plain": PLAIN, "fast": FAST}, []), greedy=True, on_progress=print)
    taken = next(bench.samples(PROMPTS))
    assert [sample.mode for sample in taken] == ["plain", "fast"]
    assert summarise(taken).overall[1].prompts == 1


def test_samples_survive_json() -> None:
    report, _, _ = measure({"plain": PLAIN, "odd": FAST})
    data = json.loads(json.dumps(report.to_json()))
    assert [sample_from_json(one) for one in data["samples"]] == list(report.samples)


def test_auto_is_compared_with_the_best_schedule_for_its_text() -> None:
    """Plain: one-row passes of 1 s. auto: drafts one token each round, kept; 1.5 s a round."""
    slow, fast = (rounds_of(drafted, 4) for drafted in (0, 1))
    modes = []
    for name, rounds in (("plain", slow), ("auto", fast)):
        counter = StatsCounter()
        for trace in rounds:
            counter.add(trace)
        finished = Finished("", (1,) * 4, "length", 7, 0, 0, counter.snapshot())
        reply = BenchReply(finished, rounds)
        drafter = None if name == "plain" else "d"
        mode = BenchMode(name, partial(given, reply), drafter=drafter, decides=name == "auto")
        modes.append(replace(mode, draft_max=3))
    bench = Bench(modes, greedy=True, on_progress=lambda _: None)
    plain, auto = next(bench.samples(PROMPTS))
    assert plain.oracle is None
    assert auto.oracle is not None
    assert auto.oracle.plain_seconds == pytest.approx(4.0)
    assert auto.oracle.taken_seconds == pytest.approx(2 * 1.75)
    assert auto.oracle.best_seconds == pytest.approx(3.5)
    figures = summarise([plain, auto]).overall[1]
    assert figures.oracle_share == pytest.approx(1.0)
    assert figures.oracle_speedup == pytest.approx(4.0 / 3.5)
    assert figures.oracle_losses == OracleLosses(0.0, 0.0, 0.0)
    assert oracle_sentences(summarise([plain, auto]))[0].endswith("drafting too little.")
    back = sample_from_json(json.loads(json.dumps(auto.to_json())))
    assert back.oracle == auto.oracle
    sampled = Bench(modes, greedy=False, on_progress=lambda _: None)
    assert next(sampled.samples(PROMPTS))[1].oracle is None


def given(reply: BenchReply, prompt: TrialPrompt) -> BenchReply:
    return reply


def rounds_of(drafted: int, tokens: int) -> tuple[RoundTrace, ...]:
    """Rounds whose drafts are all kept: 1 s a pass, half a second more a row, 0.25 s a draft."""
    rounds = []
    for number in range(tokens // (drafted + 1)):
        proposed = tuple(
            ProposedToken(1, "x", depth - 1, depth + 1, "d", 1.0, None, True)
            for depth in range(drafted)
        )
        kept = tuple(EmittedToken(1, "x", "accepted", "d", 1.0, None, 1) for _ in proposed)
        last = EmittedToken(1, "x", "bonus" if drafted else "plain", None, 1.0, None, None)
        seconds = RoundSeconds(0.25 * drafted, 1.0 + 0.5 * drafted, 0.0)
        rounds.append(RoundTrace(number, 0, proposed, (*kept, last), seconds, not drafted))
    return tuple(rounds)


def test_a_drafter_that_remembers_texts_is_loaded_once_for_each_mode() -> None:
    assert length_groups("first(ngram,model:m)", (3, 7)) == [(AUTO, 3, 7)]
    assert length_groups("first(ngram,recycle)", (3, 7)) == [(AUTO,), (3,), (7,)]
    under_test = EngineUnderTest(FakeEngine().generate, lambda: False, lambda: None)
    settings = BenchSettings(8, SamplingParams())
    auto, fixed = drafting_modes(under_test, settings, "ngram", (AUTO, 3))
    assert (auto.name, auto.decides) == ("ngram auto", True)
    assert (fixed.name, fixed.decides) == ("ngram k=3", False)


def test_a_speed_up_is_predicted_from_short_replies_and_kept_with_the_samples() -> None:
    told: list[BenchProgress] = []
    plain, fast = modes_of({"plain": PLAIN, "fast": FAST}, [])
    probed: list[TrialPrompt] = []

    def predict(prompts: Sequence[TrialPrompt]) -> float:
        probed.extend(prompts)
        return 1.6

    bench = Bench([plain, replace(fast, predict=predict)], greedy=True, on_progress=told.append)
    samples = [sample for taken in bench.samples(PROMPTS) for sample in taken]
    assert probed == [PROMPTS[0]], "one of three: half of them at most"
    assert told[1].predicted == {} and told[-1].predicted == {"fast": 1.6}
    report = summarise([sample_from_json(sample.to_json()) for sample in samples])
    assert [one.predicted_speedup for one in report.overall] == [None, pytest.approx(1.6)]
    (said,) = prediction_sentences(report)
    assert "fast: 1.60x was predicted" in said and "2.00x was measured (+25%)" in said


def test_a_run_that_is_gone_on_with_predicts_nothing_anew() -> None:
    plain, fast = modes_of({"plain": PLAIN, "fast": FAST}, [])
    mode = replace(fast, predict=lambda prompts: pytest.fail("probed"))
    bench = Bench([plain, mode], greedy=True, on_progress=lambda _: None, predicts=False)
    assert {sample.predicted for sample in next(bench.samples(PROMPTS))} == {None}


def test_every_kind_of_text_is_probed() -> None:
    prompts = [TrialPrompt(f"{kind} {n}", kind) for kind in ("code", "prose") for n in range(4)]
    expected = ["code 0", "code 2", "prose 0", "prose 2"]
    assert [prompt.text for prompt in probe_prompts(prompts)] == expected
    single = [TrialPrompt(f"{n}", f"kind {n}") for n in range(6)]
    assert [prompt.text for prompt in probe_prompts(single)] == ["0", "2", "4"]
    assert probe_prompts(prompts[:1]) == tuple(prompts[:1])


def test_predictions_come_from_the_engine_s_record_of_that_kind_of_text() -> None:
    engine = FakeEngine()
    record = {"greedy": 1.5, "sampled": 1.2}
    under_test = EngineUnderTest(engine.generate, lambda: False, lambda: None, lambda: record)
    sampled = BenchSettings(64, SamplingParams(temperature=1.0))
    (mode,) = drafting_modes(under_test, sampled, "ngram")
    assert mode.predict is not None and mode.predict([TrialPrompt("a"), TrialPrompt("b")]) == 1.2
    assert [request.max_tokens for request in engine.requests] == [48, 48]
    (greedy,) = drafting_modes(under_test, BenchSettings(8, SamplingParams()), "ngram")
    assert greedy.predict is not None and greedy.predict([TrialPrompt("a")]) == 1.5
    assert engine.requests[-1].max_tokens == 8


def test_a_drafter_that_remembers_texts_is_not_probed_with_them() -> None:
    under_test = EngineUnderTest(FakeEngine().generate, lambda: False, lambda: None)
    (mode,) = drafting_modes(under_test, BenchSettings(8, SamplingParams()), "recycle")
    assert mode.predict is None


def test_a_prompt_that_occurs_twice_is_refused() -> None:
    bench = Bench(modes_of({"plain": PLAIN}, []), greedy=True, on_progress=lambda _: None)
    with pytest.raises(BadOptionError, match="twice"):
        list(bench.samples((*PROMPTS, PROMPTS[0])))


def test_two_modes_of_one_name_are_refused() -> None:
    mode = ScriptedMode("plain", PLAIN, []).mode()
    with pytest.raises(BadOptionError, match="same name"):
        Bench([mode, mode], greedy=True, on_progress=lambda _: None)


def test_the_first_mode_is_plain() -> None:
    with pytest.raises(BadOptionError, match="plain"):
        Bench(modes_of({"fast": FAST}, []), greedy=True, on_progress=lambda _: None)


def test_an_engine_s_rounds_become_passes_and_a_stop_ends_the_reply() -> None:
    asked: list[bool] = []
    engine = FakeEngine()
    settings = BenchSettings(40, SamplingParams())
    under_test = EngineUnderTest(engine.generate, lambda: bool(asked), lambda: None)
    mode = plain_mode(under_test, settings)
    bench = Bench([mode], greedy=True, on_progress=lambda _: None)
    (sample,) = next(bench.samples([TrialPrompt("hello")]))
    assert sum(rows for rows, _ in sample.passes) == sample.stats.rounds + sample.stats.proposed
    request = engine.requests[-1]
    assert (request.reuse, request.sampling.seed, request.drafting.speculate) == (False, 0, "off")
    asked.append(True)
    slow = FakeEngine(pace=20)
    with pytest.raises(BenchStoppedError):
        plain_mode(
            EngineUnderTest(slow.generate, lambda: bool(asked), lambda: None), settings
        ).reply(TrialPrompt("a long one"))
