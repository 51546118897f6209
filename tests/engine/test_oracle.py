"""The best schedule for a known text, checked against trying all of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from engine.control.advice import advice, break_evens
from engine.control.cost import CostModel
from engine.control.oracle import (
    best_seconds,
    consult_oracle,
    fixed_seconds,
    merged_hits,
    recorded_hits,
)
from engine.data.loaded import BreakEven
from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace
from tests.engine.simulated_pair import Machine, Text, simulate

MACHINE = Machine({1: 100, 2: 130, 3: 170, 4: 172, 8: 300}, step=15)
STEP = 0.015


def seconds_of(lengths: Sequence[int], hits: Sequence[bool]) -> float:
    """Time when the rounds draft these lengths, and plain rounds to the end."""
    place, seconds = 0, 0.0
    for length in itertools.chain(lengths, itertools.repeat(0)):
        if place >= len(hits):
            return seconds
        length = min(length, len(hits) - place - 1)
        kept = 0
        while kept < length and hits[place + kept]:
            kept += 1
        seconds += length * STEP + MACHINE.pass_seconds(length + 1)
        place += kept + 1
    return seconds


@pytest.mark.parametrize("seed", range(6))
def test_no_schedule_is_faster(seed: int) -> None:
    hits = [bool(hit) for hit in np.random.default_rng(seed).random(6) < 0.7]
    tried = min(seconds_of(plan, hits) for plan in itertools.product(range(4), repeat=6))
    assert best_seconds(hits, MACHINE.pass_seconds, STEP, 3) == pytest.approx(tried)


def test_fixed_lengths_and_plain_decoding() -> None:
    hits = [True, False, True, True, False, True]
    for length in range(4):
        expected = seconds_of([length] * 6, hits)
        assert fixed_seconds(hits, MACHINE.pass_seconds, STEP, length) == pytest.approx(expected)
    assert fixed_seconds(hits, MACHINE.pass_seconds, STEP, 0) == pytest.approx(0.6)


def test_what_rounds_tell_about_the_text() -> None:
    def trace(drafted: int, kept: int) -> RoundTrace:
        nodes = tuple(
            ProposedToken(1, "", i - 1, i + 1, "m", 1.0, None, i < kept) for i in range(drafted)
        )
        emitted = (EmittedToken(1, "", "plain", None, 1.0, None, None),) * (kept + 1)
        return RoundTrace(1, 0, nodes, emitted, RoundSeconds(0.1, 0.1, 0.0), parked=False)

    hits = recorded_hits([trace(3, 3), trace(2, 1), trace(0, 0)])
    assert hits == [True, True, True, None, True, False, None]
    assert merged_hits([hits, [False] * 3 + [True] * 4]) == [
        *(False, False, False),
        *(True, True, True, True),
    ]
    assert merged_hits([[None, True], [False]]) == [False, True]


def test_autos_share_of_the_best() -> None:
    text = Text.of(0.85, 400, 3)
    simulation = simulate(MACHINE, [Text.of(0.85, 400, 4), text])
    rounds = [trace for trace in simulation.traces if trace.round > 0]
    begin = next(i for i, t in enumerate(rounds) if i and t.position == 0)
    hits = [bool(right) for right in text.right]
    report = consult_oracle(rounds[begin:], hits, MACHINE.pass_seconds, 8)
    assert report.tokens == 400 and report.known == 1.0
    assert 0.75 < report.fraction_of_best < 1.0
    assert report.speed_up == pytest.approx(report.fraction_of_best * report.best_speed_up)
    assert report.best_seconds < report.fixed_seconds <= report.plain_seconds
    assert report.taken_seconds < report.fixed_seconds
    assert report.rejected_seconds > 0.0 and report.vain_seconds > 0.0
    assert report.short_seconds > 0.0


def test_where_the_time_of_one_round_went() -> None:
    """Three drafted, one kept: two rows and two draft steps in vain; one more would have been
    kept after the correction, at no round of its own."""
    nodes = tuple(ProposedToken(1, "", i - 1, i + 1, "m", 1.0, None, i < 1) for i in range(3))
    emitted = (EmittedToken(1, "", "plain", None, 1.0, None, None),)
    first = RoundTrace(1, 0, nodes, emitted * 2, RoundSeconds(0.3, 1.0, 0.0), parked=False)
    second = RoundTrace(2, 2, (), emitted, RoundSeconds(0.0, 1.0, 0.0), parked=False)
    third = RoundTrace(3, 3, (), emitted, RoundSeconds(0.0, 1.0, 0.0), parked=False)
    hits = [True, False, True, False]
    widths = {1: 1.0, 2: 1.25, 3: 1.5, 4: 1.75}
    report = consult_oracle([first, second, third], hits, widths.__getitem__, 3)
    assert report.taken_seconds == pytest.approx(0.3 + 1.75 + 1.0 + 1.0)
    assert report.rejected_seconds == pytest.approx(0.5)
    assert report.vain_seconds == pytest.approx(0.2)
    assert report.best_seconds == pytest.approx(2 * (0.1 + 1.25))
    assert report.short_seconds == pytest.approx(2 * 1.0 - (0.1 + 1.25))


# Break-even


def test_where_checking_costs_as_much_as_writing_nothing_can_pay() -> None:
    cost = CostModel({1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0})
    evens = break_evens(cost, 0.1)
    assert all(even.acceptance is None and even.most < 1.0 for even in evens)
    assert "cannot pay" in advice("m", evens)


def test_break_even_is_where_both_take_the_same_time() -> None:
    cost = CostModel({1: 1.0, 2: 1.2, 4: 1.4})
    one, two = break_evens(cost, 0.1, lengths=(1, 2))
    assert one.acceptance == pytest.approx(0.3)
    a = two.acceptance
    assert a is not None and 1 + a + a * a == pytest.approx(2 * 0.1 + 1.3)
    assert one.most == pytest.approx(2 / 1.3)


@pytest.mark.parametrize(
    ("needed", "words"), [(0.5, "pays here"), (0.9, "very predictable"), (0.98, "hardly ever")]
)
def test_the_advice_says_how_hard_it_is(needed: float, words: str) -> None:
    assert words in advice("m", [BreakEven(2, needed, 1.4)])
    assert words in advice("m", [BreakEven(2, needed, 1.4)], spread=0.1)
    assert "at best 1.40 times as fast" in advice("m", [BreakEven(2, needed, 1.4)])


def test_what_gains_less_than_passes_differ_by_is_not_settled() -> None:
    even = BreakEven(1, 0.9, 1.08)
    assert "pays only on very predictable text" in advice("m", [even], spread=0.02)
    said = advice("m", [even], spread=0.12)
    assert said.startswith("Whether drafting with m can pay here is not settled: at best 1.08")
    assert "differed by 12%" in said
    assert "cannot pay" in advice("m", [BreakEven(1, 0.99, 1.02)])


def test_a_drafter_never_gains_more_than_its_tokens_of_a_round() -> None:
    """The machine was busy while passes of one row were timed."""
    evens = break_evens(CostModel({1: 1.0, 2: 0.4, 4: 0.5, 8: 0.6}), 0.0)
    assert [even.most for even in evens] == [even.length + 1 for even in evens]
    assert all(even.acceptance is not None and even.acceptance >= 0.0 for even in evens)
