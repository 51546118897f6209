"""The bench: order of the modes, ratios prompt by prompt, intervals, refusals."""

from __future__ import annotations

import pytest

from engine.bench import BenchMode, BenchSample, run_bench
from engine.errors import BadOptionError
from engine.events import Finished
from engine.prompts import TrialPrompt
from engine.stats import Stats

PROMPTS = (TrialPrompt("one", "code"), TrialPrompt("two", "code"), TrialPrompt("three", "prose"))


class ScriptedMode:
    """Replies in a fixed time per token; writes down when it was asked."""

    def __init__(self, name: str, seconds: dict[str, float], log: list[str]) -> None:
        self._name = name
        self._seconds = seconds
        self._log = log

    def mode(self) -> BenchMode:
        return BenchMode(self._name, self._reply)

    def _reply(self, prompt: TrialPrompt) -> Finished:
        self._log.append(self._name)
        stats = Stats(
            emitted=10,
            rounds=5,
            proposed=8,
            accepted=4,
            prefill_seconds=0.5,
            decode_seconds=10 * self._seconds.get(prompt.text, 1.0),
        )
        tokens = (1, 2) if self._name != "odd" else (1, 3)
        return Finished("", tokens, "length", 7, 0, 0, stats)


def bench(seconds: dict[str, dict[str, float]]) -> tuple[list[str], list[BenchSample]]:
    log: list[str] = []
    seen: list[BenchSample] = []
    modes = [ScriptedMode(name, times, log).mode() for name, times in seconds.items()]
    run_bench(modes, PROMPTS, seen.append)
    return log, seen


PLAIN = {"one": 1.0, "two": 1.0, "three": 1.0}
FAST = {"one": 0.5, "two": 0.25, "three": 1.0}


def test_modes_take_turns_and_another_one_starts_each_time() -> None:
    log, _ = bench({"plain": PLAIN, "fast": FAST})
    warm_up, counted = log[:2], log[2:]
    assert sorted(warm_up) == ["fast", "plain"]
    assert counted == ["plain", "fast", "fast", "plain", "plain", "fast"]


def test_speed_up_is_the_geometric_mean_of_ratios_prompt_by_prompt() -> None:
    log: list[str] = []
    modes = [ScriptedMode("plain", PLAIN, log).mode(), ScriptedMode("fast", FAST, log).mode()]
    report = run_bench(modes, PROMPTS, lambda _: None)
    plain, fast = report.overall
    assert plain.speedup == pytest.approx(1.0)
    assert fast.speedup == pytest.approx((2.0 * 4.0 * 1.0) ** (1 / 3))
    assert fast.speedup_low <= fast.speedup <= fast.speedup_high
    assert fast.acceptance_rate == pytest.approx(0.5)
    assert fast.mean_accepted_length == pytest.approx(2.0)
    by_mode = {figures.mode: figures for figures in report.by_category["code"]}
    assert by_mode["fast"].speedup == pytest.approx(8.0**0.5)


def test_text_that_differs_from_plain_is_counted() -> None:
    log: list[str] = []
    modes = [
        ScriptedMode("plain", PLAIN, log).mode(),
        ScriptedMode("fast", FAST, log).mode(),
        ScriptedMode("odd", FAST, log).mode(),
    ]
    plain, fast, odd = run_bench(modes, PROMPTS, lambda _: None).overall
    assert (plain.same_text, fast.same_text, odd.same_text) == (None, 3, 0)


def test_a_prompt_that_occurs_twice_is_refused() -> None:
    mode = ScriptedMode("plain", PLAIN, []).mode()
    with pytest.raises(BadOptionError, match="twice"):
        run_bench([mode], (*PROMPTS, PROMPTS[0]), lambda _: None)


def test_two_modes_of_one_name_are_refused() -> None:
    mode = ScriptedMode("plain", PLAIN, []).mode()
    with pytest.raises(BadOptionError, match="same name"):
        run_bench([mode, mode], PROMPTS, lambda _: None)


def test_the_first_mode_is_plain() -> None:
    with pytest.raises(BadOptionError, match="plain"):
        run_bench([ScriptedMode("fast", FAST, []).mode()], PROMPTS, lambda _: None)
