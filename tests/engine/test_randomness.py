"""Streams: reproducible, independent where they must be, coupled where they should be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from engine.maths.distribution import Distribution
from engine.maths.randomness import CoupledStream, IndependentStream, random_seed
from tests.engine.toys import dense

P = dense(0.05, 0.4, 0.25, 0.2, 0.1)
Q = dense(0.1, 0.3, 0.35, 0.0, 0.25)
SIGNIFICANT = 1e-4


def test_a_seed_gives_the_same_decisions_again() -> None:
    for purpose in ("target", "draft"):
        first, again = IndependentStream(7, purpose), IndependentStream(7, purpose)
        assert [first.uniform() for _ in range(5)] == [again.uniform() for _ in range(5)]
        assert [first.draw(P, 0) for _ in range(50)] == [again.draw(P, 0) for _ in range(50)]
        other = IndependentStream(8, purpose)
        assert [first.draw(P, 0) for _ in range(50)] != [other.draw(P, 0) for _ in range(50)]


def test_what_goes_on_uses_no_number_again() -> None:
    whole = IndependentStream(7, "target")
    used = {whole.uniform() for _ in range(2000)}
    for start in (1, 2, 1000):
        later = [IndependentStream(7, "target", start).uniform() for _ in range(2)]
        assert later[0] == later[1] and later[0] not in used
    assert IndependentStream(7, "target", 0).uniform() in used


def test_target_and_draft_streams_of_a_seed_are_independent() -> None:
    target, draft = IndependentStream(7, "target"), IndependentStream(7, "draft")
    pairs = np.zeros((5, 5))
    for _ in range(5000):
        pairs[target.draw(P, 0), draft.draw(P, 0)] += 1
    assert stats.chi2_contingency(pairs).pvalue > SIGNIFICANT


def test_accept_has_the_probability_it_is_given() -> None:
    for stream in (IndependentStream(3, "target"), CoupledStream(3)):
        accepted = sum(stream.accept(0.3) for _ in range(5000))
        assert stats.binomtest(accepted, 5000, 0.3).pvalue > SIGNIFICANT
        assert all(stream.accept(1.0) for _ in range(100))
        assert not any(stream.accept(0.0) for _ in range(100))
        assert 0.0 <= stream.uniform() < 1.0


def test_independent_draws_follow_the_distribution() -> None:
    stream = IndependentStream(11, "target")
    assert chi_square([stream.draw(P, 0) for _ in range(20000)]) > SIGNIFICANT


@pytest.mark.parametrize("vary", ["position", "seed"])
def test_coupled_draws_follow_the_distribution(vary: str) -> None:
    by_position = CoupledStream(11)
    draws = [
        by_position.draw(P, index) if vary == "position" else CoupledStream(index).draw(P, 12)
        for index in range(20000)
    ]
    assert chi_square(draws) > SIGNIFICANT
    following = np.zeros((5, 5))
    for first, second in zip(draws[::2], draws[1::2], strict=True):
        following[first, second] += 1
    assert stats.chi2_contingency(following).pvalue > SIGNIFICANT


def test_coupled_draws_follow_the_distribution_on_large_sparse_ids() -> None:
    ids = np.array([3, 700, 40_000, 151_000, 262_143])
    sparse = Distribution(ids, P.probabilities)
    stream = CoupledStream(5)
    draws = [int(np.searchsorted(ids, stream.draw(sparse, index))) for index in range(20000)]
    assert chi_square(draws) > SIGNIFICANT


def test_the_noise_of_neighbouring_tokens_is_uniform_and_uncorrelated() -> None:
    """Over ids of one position: each token wins a race of equals equally often."""
    equal = Distribution(np.arange(1000), np.full(1000, 1e-3))
    stream = CoupledStream(2)
    winners = np.array([stream.draw(equal, position) for position in range(20000)])
    counts = np.bincount(winners, minlength=1000)
    assert stats.chisquare(counts).pvalue > SIGNIFICANT
    assert abs(np.corrcoef(winners[:-1], winners[1:])[0, 1]) < 0.03


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**20), st.integers(0, 1000))
def test_a_coupled_draw_depends_on_seed_position_and_distribution_only(
    seed: int, position: int, others: int
) -> None:
    used = CoupledStream(seed)
    for _ in range(others % 5):
        used.draw(Q, others)
        used.uniform()
    assert used.draw(P, position) == CoupledStream(seed).draw(P, position)


@given(st.integers(0, 2**32), st.integers(0, 5000))
def test_a_coupled_draw_stays_when_other_tokens_lose_their_mass(seed: int, position: int) -> None:
    """The noise belongs to the token, not to its place in the support."""
    drawn = CoupledStream(seed).draw(P, position)
    kept = np.unique([drawn, (drawn + 1) % 5, (drawn + 3) % 5])
    mass = P.probability_of(kept)
    assert CoupledStream(seed).draw(Distribution(kept, mass / mass.sum()), position) == drawn


def test_coupled_draws_of_two_distributions_agree_as_often_as_theory_says() -> None:
    p, q = P.probability_of(np.arange(5)), Q.probability_of(np.arange(5))
    agreement = sum(
        1.0 / sum(max(p[y] / p[x], q[y] / q[x]) for y in range(5)) for x in range(5) if q[x] > 0.0
    )
    variation = np.abs(p - q).sum() / 2
    assert agreement >= (1 - variation) / (1 + variation)
    stream = CoupledStream(17)
    equal = sum(stream.draw(P, index) == stream.draw(Q, index) for index in range(20000))
    assert stats.binomtest(equal, 20000, agreement).pvalue > SIGNIFICANT


def test_coupled_draws_are_the_same_on_every_machine() -> None:
    stream = CoupledStream(20_240_229)
    pinned = [2, 2, 0, 3, 2, 2, 1, 1, 3, 3, 4, 3, 1, 1, 1, 2, 2, 0, 2, 1, 1, 1, 2, 2]
    assert [stream.draw(P, position) for position in range(24)] == pinned


def test_extreme_probabilities_do_not_disturb_a_coupled_draw() -> None:
    tiny = Distribution(np.arange(3), np.array([5e-324, 1.0, 1e-310]))
    assert {CoupledStream(seed).draw(tiny, 0) for seed in range(200)} == {1}


def test_random_seeds_are_small_and_differ() -> None:
    seeds = {random_seed() for _ in range(20)}
    assert len(seeds) > 15
    assert all(0 <= seed < 2**31 for seed in seeds)


def chi_square(draws: list[int]) -> float:
    counts = np.bincount(draws, minlength=5)
    return float(stats.chisquare(counts, P.probabilities * len(draws)).pvalue)
