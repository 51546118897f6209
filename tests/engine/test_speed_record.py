"""The speed-up to expect: of the last replies, none of which may carry it away."""

from __future__ import annotations

import math

import pytest

from engine.control.speed_record import SpeedRecord, robust_mean


def record_of(*replies: tuple[float, int]) -> SpeedRecord:
    """Speed-up and tokens of each reply, written in rounds of eight tokens."""
    record = SpeedRecord()
    for speed, tokens in replies:
        record.begin_reply()
        for _ in range(tokens // 8):
            record.add(8, 8 * speed, 8.0)
    return record


def test_replies_count_alike_however_long() -> None:
    assert record_of((1.1, 40), (1.2, 400), (1.3, 40)).speed_up == pytest.approx(
        (1.1 * 1.2 * 1.3) ** (1 / 3), rel=1e-3
    )


@pytest.mark.parametrize("before", [2, 3, 8, 16])
def test_one_looping_reply_does_not_carry_the_record_away(before: int) -> None:
    usual = [(1.0 + 0.01 * (number % 3), 120) for number in range(before)]
    swung = record_of(*usual, (8.0, 2000)).speed_up
    assert swung is not None and 1.0 < swung < 1.15
    back = record_of(*usual, (8.0, 2000), (1.0, 120)).speed_up
    assert back is not None and back < swung


def test_when_most_replies_are_fast_fast_ones_are_expected() -> None:
    found = record_of(*[(1.0, 100)] * 3, *[(2.0, 100)] * 9).speed_up
    assert found is not None and found > 1.8
    later = record_of(*[(1.0, 100)] * 9, *[(2.0, 100)] * 16).speed_up
    assert later == pytest.approx(2.0), "what is long ago no longer counts"


def test_of_two_replies_nothing_is_said_whatever_they_are() -> None:
    assert record_of((8.0, 2000)).speed_up is None
    assert record_of((1.0, 100), (8.0, 2000)).speed_up is None
    assert record_of((1.0, 100), (8.0, 8), (8.0, 8), (1.0, 100)).speed_up is None, "too short"


def test_no_reply_counts_as_faster_than_its_tokens_a_round() -> None:
    record = SpeedRecord()
    for _ in range(3):
        record.begin_reply()
        for _ in range(40):
            record.add(1, 5.0, 1.0)  # T(1) was slow of late: five times as fast, without a draft
    assert record.speed_up == pytest.approx(1.0)


def test_rounds_of_no_time_or_of_no_token_are_no_speed() -> None:
    assert record_of((1.0, 0), (0.0, 80), (1.0, 0)).speed_up is None


def test_a_record_of_sums_is_read_as_one_reply() -> None:
    """As it was kept before there were replies in it."""
    old = SpeedRecord.from_json({"logarithms": 480.0 * math.log(2.6), "tokens": 480.0})
    assert old.speed_up is None
    for _ in range(3):
        old.begin_reply()
        old.add(64, 64.0, 64.0)
    assert old.speed_up is not None and old.speed_up < 1.15
    written = record_of((1.5, 80), (1.5, 80), (1.5, 80)).to_json()
    assert written["logarithms"] / written["tokens"] == pytest.approx(math.log(1.5), rel=1e-2)
    assert SpeedRecord.from_json(written).speed_up == pytest.approx(1.5, rel=1e-3)
    for wrong in ([math.nan], [math.inf], [1e300], ["x"], 5):
        with pytest.raises((ValueError, TypeError)):
            SpeedRecord.from_json({**written, "replies": wrong})


def test_the_robust_mean_is_the_mean_of_what_lies_together() -> None:
    assert robust_mean([0.1, 0.2, 0.3]) == pytest.approx(0.2)
    assert robust_mean([0.7]) == pytest.approx(0.7)
    far = robust_mean([0.0, 0.0, 0.0, 2.0])
    assert 0.0 < far == pytest.approx(robust_mean([0.0, 0.0, 0.0, 50.0])), "no matter how far"
