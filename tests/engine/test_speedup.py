"""Speed-ups: what is possible, and what is known of them."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from engine.control.speedup import (
    PAYS,
    Repeats,
    most_speedup,
    pass_ratios,
    speed_up,
    student,
)


def test_without_pass_times_the_bound_is_tokens_a_round() -> None:
    assert most_speedup(103, 100) == pytest.approx(1.03)
    assert most_speedup(103, 100, [2] * 100, {}) == pytest.approx(1.03)


@pytest.mark.parametrize(("emitted", "rounds"), [(0, 0), (5, 0), (0, 5)])
def test_without_rounds_or_tokens_there_is_no_bound(emitted: int, rounds: int) -> None:
    assert most_speedup(emitted, rounds) is None


def test_wider_passes_lower_the_bound() -> None:
    ratios = pass_ratios([(1, 0.1)] * 9 + [(4, 0.2)] * 9)
    assert ratios == {1: 1.0, 4: pytest.approx(2.0)}
    assert most_speedup(6, 3, [1, 4, 4], ratios) == pytest.approx(6 / 5)
    assert most_speedup(6, 3, [1, 3, 9], ratios) == pytest.approx(6 / 4), "the narrower one's"


def test_no_pass_counts_as_quicker_than_one_of_a_single_row() -> None:
    """A machine that was busy while plain decoding had its turn."""
    ratios = pass_ratios([(1, 0.5)] * 9 + [(4, 0.1)] * 9)
    assert ratios == {1: 1.0, 4: 1.0}
    assert most_speedup(6, 3, [4, 4, 4], ratios) == pytest.approx(2.0)


def test_noise_in_the_passes_makes_the_bound_looser() -> None:
    random = np.random.default_rng(1)
    steady = pass_ratios([(1, 1.0)] * 99 + [(4, 1.5)] * 99)
    noise = np.exp(0.3 * random.standard_normal(198))
    noisy = pass_ratios(
        [(1, float(one)) for one in noise[:99]] + [(4, 1.5 * float(one)) for one in noise[99:]]
    )
    assert 1.0 <= noisy[4] < steady[4] == pytest.approx(1.5)


def test_the_bound_takes_the_cheapest_of_wider_passes() -> None:
    """Where kernels work in groups, four rows may take less than three."""
    ratios = pass_ratios([(1, 0.025), (3, 0.059), (4, 0.042), (5, 0.06)])
    assert ratios[3] == ratios[4] == pytest.approx(42 / 25)


def test_passes_without_one_of_a_single_row_say_nothing() -> None:
    assert pass_ratios([(4, 0.2)]) == {} == pass_ratios([])


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (7, 2.365), (29, 2.045), (1000, 1.962)],
)
def test_quantiles_of_student_s_t(degrees: int, expected: float) -> None:
    assert student(degrees) == pytest.approx(expected, abs=0.005)


def test_an_effect_without_noise_is_known() -> None:
    found = speed_up([1.4, 1.41, 1.39, 1.4], [2.0] * 4, Repeats(0.005, 4))
    assert found.mean == pytest.approx(1.4, rel=0.01)
    assert found.settled and found.pays
    assert 1.35 < found.low < found.mean < found.high < 1.45


def test_noise_without_an_effect_settles_nothing() -> None:
    found = speed_up([0.7, 1.5, 1.1, 0.9], [2.0] * 4, Repeats(0.25, 4))
    assert not found.settled
    assert found.low < 1.0 < found.high
    assert found.needed is None or found.needed > 50


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Simulated prompts: 95 % of the intervals of noise alone hold 1."""
    random = np.random.default_rng(5)
    for prompts in (2, 3, 8):
        held = 0
        for _ in range(2000):
            ratios = np.exp(0.2 * random.standard_normal(prompts))
            found = speed_up([float(one) for one in ratios])
            held += found.low <= 1.0 <= found.high
        assert held / 2000 == pytest.approx(0.95, abs=0.015)


def test_as_many_prompts_as_are_said_to_be_needed_mostly_settle_it() -> None:
    random = np.random.default_rng(6)
    effect, noise = math.log(1.15), 0.3
    steps = (-1.22, 0.0, 0.0, 1.22)  # of deviation 1
    needed = speed_up([1.15 * math.exp(noise * one) for one in steps]).needed
    assert needed is not None
    settled = []
    for _ in range(400):
        logs = effect + noise * random.standard_normal(needed)
        settled.append(speed_up([float(one) for one in np.exp(logs)]).settled)
    assert 0.7 < statistics.fmean(settled) < 0.9


def test_what_is_beyond_the_bound_is_noise_and_widens_the_interval() -> None:
    """5.1 times as fast with 3 % of the drafts kept: 1.05 tokens a round."""
    found = speed_up([5.2, 5.0, 5.1], [1.05, 1.06, 1.04], Repeats(0.02, 3))
    assert found.mean == pytest.approx(1.05, abs=0.001)
    assert found.most is not None
    assert found.high <= found.most == pytest.approx(1.05, abs=0.001)
    assert found.low < 0.5
    assert not found.settled and found.needed is None


def test_figures_of_wild_clocks_stay_numbers() -> None:
    found = speed_up([1e-9, 1e9], [None, None], Repeats(90.0, 1))
    assert math.isfinite(found.low) and math.isfinite(found.high)
    assert found.low > 0.0 and not found.settled


def test_where_the_bound_leaves_no_room_nothing_has_to_be_measured() -> None:
    found = speed_up([4.0], [1.02])
    assert found.most is not None and found.most < PAYS
    assert found.settled and not found.pays


def test_one_prompt_settles_nothing() -> None:
    assert not speed_up([1.8], [2.5]).settled
    assert not speed_up([1.8], [2.5], Repeats(0.01, 1)).settled


def test_prompts_are_no_surer_than_plain_decoding_of_itself() -> None:
    alike = [1.2, 1.2, 1.2]
    assert speed_up(alike).low == pytest.approx(1.2)
    assert speed_up(alike, repeats=Repeats(0.3, 3)).low < 1.0


def test_plain_decoding_s_two_replies_tell_its_noise() -> None:
    random = np.random.default_rng(7)
    pairs = np.exp(0.1 * random.standard_normal((4000, 2)))
    found = Repeats.of([(float(a), float(b)) for a, b in pairs])
    assert found.deviation == pytest.approx(0.1, rel=0.05)
    assert found.difference == pytest.approx(math.expm1(0.1 * math.sqrt(2)), rel=0.05)
    assert Repeats.of([(0.1,), ()]) == Repeats()
    assert Repeats().difference is None
