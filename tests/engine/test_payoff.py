"""Whether drafting paid, by cases that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from engine.control.payoff import Payoff, PayoffMeter, RoundCost
from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace


def round_of(drafted: int, kept: int, seconds: RoundSeconds, plain: float | None) -> RoundTrace:
    proposed = tuple(
        ProposedToken(1, "a", at - 1, at + 1, "ngram", 0.5, None, at < kept)
        for at in range(drafted)
    )
    one = EmittedToken(1, "a", "plain", None, 0.5, None, None)
    return RoundTrace(1, 1, proposed, (one,) * (kept + 1), seconds, drafted == 0, plain=plain)


def payoff_of(*rounds: RoundTrace) -> Payoff | None:
    meter = PayoffMeter()
    for one in rounds:
        meter.add(RoundCost.of(one))
    return meter.payoff


def known(*rounds: RoundTrace) -> tuple[Payoff, float]:
    payoff = payoff_of(*rounds)
    assert payoff is not None
    assert payoff.speed_up is not None
    return payoff, payoff.speed_up


def test_three_tokens_for_the_time_of_two() -> None:
    payoff, speed_up = known(*[round_of(3, 2, RoundSeconds(0.5, 1.5, 0.0), 1.0)] * 10)
    assert speed_up == pytest.approx(1.5)
    assert payoff.saved == pytest.approx(10.0)
    assert payoff.plain == pytest.approx(1.0)
    assert payoff.low is not None
    assert payoff.high is not None
    assert payoff.low < speed_up < payoff.high
    assert payoff.why == ""


def test_rounds_without_a_draft_count_as_they_were() -> None:
    """A measured T(1) that is far off changes nothing of them."""
    plain = round_of(0, 0, RoundSeconds(0.0, 1.0, 0.25), 9.0)
    drafted = round_of(1, 1, RoundSeconds(0.0, 1.25, 0.0), 1.0)
    _, speed_up = known(*[plain, drafted] * 10)
    assert speed_up == pytest.approx((1.25 + 2.0) / (1.25 + 1.25))


def test_no_pass_is_faster_than_one_of_a_single_row() -> None:
    """T(1) was measured while the machine was busy: the bound is the tokens of a round."""
    payoff, speed_up = known(*[round_of(2, 2, RoundSeconds(0.0, 0.5, 0.0), 1.0)] * 10)
    assert speed_up == pytest.approx(3.0)
    assert payoff.high == pytest.approx(3.0)
    assert payoff.low is not None
    assert payoff.low <= 1.6  # what the clock has beyond the bound is an error of measurement
    assert payoff.saved == pytest.approx(10 * 0.5 * 2.0)


def test_the_drafters_reading_of_the_prompt_counts() -> None:
    one = round_of(3, 2, RoundSeconds(0.5, 1.5, 0.0), 1.0)
    _, speed_up = known(replace(one, reading=10.0), *[one] * 9)
    assert speed_up == pytest.approx(30.0 / 30.0)


def test_what_a_round_takes_besides_passes_is_the_drafts_beyond_a_tenth() -> None:
    _, speed_up = known(*[round_of(3, 2, RoundSeconds(0.0, 1.0, 4.0), 1.0)] * 10)
    assert speed_up == pytest.approx(3 * 1.1 / 5.0)


def test_uneven_rounds_widen_the_interval() -> None:
    hit = round_of(2, 2, RoundSeconds(0.0, 1.5, 0.0), 1.0)
    miss = round_of(2, 0, RoundSeconds(0.0, 1.5, 0.0), 1.0)
    even, _ = known(*[round_of(2, 1, RoundSeconds(0.0, 1.5, 0.0), 1.0)] * 20)
    uneven, _ = known(*[hit, miss] * 10)
    assert even.speed_up == pytest.approx(uneven.speed_up)
    assert even.low is not None
    assert uneven.low is not None
    assert uneven.low < even.low
    gap = math.log(even.speed_up or 1.0) - math.log(even.low)
    assert gap == pytest.approx(0.02)


@pytest.mark.parametrize("count", [1, 7])
def test_too_few_rounds_are_not_known_yet(count: int) -> None:
    payoff = payoff_of(*[round_of(3, 3, RoundSeconds(0.5, 1.5, 0.0), 1.0)] * count)
    assert payoff is not None
    assert payoff.speed_up is payoff.low is payoff.high is payoff.saved is None
    assert payoff.plain == pytest.approx(1.0)


def test_nothing_is_said_where_nothing_is_measured_or_drafted() -> None:
    assert payoff_of() is None
    assert payoff_of(*[round_of(3, 3, RoundSeconds(0.5, 1.5, 0.0), None)] * 20) is None
    assert payoff_of(*[round_of(0, 0, RoundSeconds(0.0, 1.0, 0.0), 1.0)] * 40) is None


@pytest.mark.parametrize(
    ("drafted", "kept", "draft", "pass_", "why"),
    [
        (1, 1, 0.5, 2.0, "Checking drafts takes this machine as long as writing"),
        (3, 2, 2.5, 1.5, "Drafting itself is too dear: it took 75.0 s, and its tokens saved 45.0"),
        (4, 0, 0.1, 1.5, "too seldom right: 0 of 120 tokens (0%), while each pass takes 1.5 times"),
    ],
)
def test_why_it_did_not_pay(drafted: int, kept: int, draft: float, pass_: float, why: str) -> None:
    payoff, speed_up = known(*[round_of(drafted, kept, RoundSeconds(draft, pass_, 0.0), 1.0)] * 30)
    assert speed_up < 1.0
    assert why in payoff.why


def test_a_text_with_nothing_to_draft() -> None:
    idle = round_of(0, 0, RoundSeconds(0.2, 1.0, 0.0), 1.0)
    payoff, _ = known(*[idle] * 29, round_of(1, 0, RoundSeconds(0.2, 1.1, 0.0), 1.0))
    assert "little to draft: 1 tokens in 30 rounds" in payoff.why
