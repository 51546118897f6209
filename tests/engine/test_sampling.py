"""The sampler against a naive one that sorts the whole row, and its refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.data.errors import NativeError
from engine.data.request import SamplingParams
from engine.maths.sampling import Sampler, confidence

Row = NDArray[np.float32]


def naive(
    logits: Row, params: SamplingParams, history: Sequence[int]
) -> tuple[dict[int, float], float]:
    """Token to probability, step by step as SamplingParams says, in float64.

    Also how far the nearest token is from another decision: within rounding both are right.
    """
    margin = np.inf
    scores = naive_penalties(logits, params, history)
    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    if params.temperature == 0.0:
        return {order[0]: 1.0}, margin
    order = [token for token in order if np.isfinite(scores[token])]
    if params.top_k:
        order = order[: params.top_k]
    best = scores[order[0]]
    mass = np.exp([scores[token] - best for token in order])
    if params.top_p < 1.0:
        reached = np.cumsum(mass / mass.sum())
        margin = min(margin, np.abs(reached - params.top_p).min())
        order = order[: int(np.argmax(reached >= params.top_p)) + 1]
    if params.min_p > 0.0:
        limit = best + np.log(params.min_p)
        margin = min(margin, *(abs(scores[token] - limit) for token in order))
        order = [token for token in order if scores[token] >= limit]
    heated = np.exp([(scores[token] - best) / params.temperature for token in order])
    return dict(zip(order, (heated / heated.sum()).tolist(), strict=True)), margin


def naive_penalties(logits: Row, params: SamplingParams, history: Sequence[int]) -> list[float]:
    scores = [float(value) for value in logits]
    window = history[max(0, len(history) - params.penalty_last_n) :]
    for token in set(window):
        repeat = params.repeat_penalty
        scores[token] = scores[token] / repeat if scores[token] > 0 else scores[token] * repeat
        scores[token] -= window.count(token) * params.frequency_penalty
        scores[token] -= params.presence_penalty
    return scores


def random_row(seed: int, size: int, spread: float, grid: bool) -> Row:
    """grid: many exact ties, and no two scores closer than an eighth."""
    generator = np.random.default_rng([seed, size])
    row = generator.standard_normal(size) * spread
    if grid:
        row = np.round(row * 8) / 8
    row[generator.random(size) < 0.1] = -np.inf
    row[generator.integers(size)] = spread
    frozen = row.astype(np.float32)
    frozen.flags.writeable = False  # writing to the caller's logits would raise
    return frozen


TRUNCATIONS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.05, 0.5, 0.8, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 2, 7, 40, 300]),
    top_p=st.sampled_from([1.0, 0.999, 0.95, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.01, 0.3, 0.9]),
)
SIZES = st.sampled_from([1, 2, 63, 64, 65, 129, 1000, 6001])


def check(logits: Row, params: SamplingParams, history: Sequence[int] = ()) -> None:
    expected, margin = naive(logits, params, history)
    assume(margin > 1e-5)
    result = Sampler(params).distribution(logits, history)
    assert result.ids.dtype == np.int64 and result.probabilities.dtype == np.float64
    assert np.all(np.diff(result.ids) > 0)
    assert np.all(result.probabilities > 0.0)
    assert result.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    far = {token for token, mass in expected.items() if mass < 1e-37}  # may underflow to 0
    assert set(expected) - far <= set(result.ids.tolist()) <= set(expected)
    wanted = np.array([expected[token] for token in result.ids.tolist()])
    np.testing.assert_allclose(result.probabilities, wanted, rtol=2e-4, atol=1e-12)
    if len(expected) <= 1000:
        np.testing.assert_allclose(result.probabilities, wanted, rtol=1e-9, atol=1e-12)


@given(TRUNCATIONS, SIZES, st.integers(0, 10**6), st.sampled_from([0.5, 3.0, 20.0]), st.booleans())
def test_truncation_and_temperature_equal_the_naive_ones(
    params: SamplingParams, size: int, seed: int, spread: float, grid: bool
) -> None:
    check(random_row(seed, size, spread, grid), params)


@pytest.mark.parametrize("top_p", [0.02, 0.3, 0.5, 0.8, 0.95, 0.9999])
@pytest.mark.parametrize("spread", [0.1, 0.5, 2.0, 6.0])
def test_a_nucleus_of_thousands_equals_the_naive_one(top_p: float, spread: float) -> None:
    row = random_row(4, 30_000, spread, grid=False)
    expected, _ = naive(row, SamplingParams(temperature=1.0, top_p=top_p), ())
    result = Sampler(SamplingParams(temperature=1.0, top_p=top_p)).distribution(row, ())
    differing = set(expected) ^ set(result.ids.tolist())
    assert sum(expected.get(token, result.probability(token)) for token in differing) < 2e-4


@given(
    st.builds(
        SamplingParams,
        temperature=st.sampled_from([0.0, 0.7]),
        top_k=st.sampled_from([0, 5]),
        repeat_penalty=st.sampled_from([1.0, 1.25, 0.5]),
        frequency_penalty=st.sampled_from([0.0, 0.5, -1.0]),
        presence_penalty=st.sampled_from([0.0, 0.25, -0.5]),
        penalty_last_n=st.sampled_from([0, 1, 3, 64]),
    ),
    st.lists(st.integers(0, 19), max_size=80),
    st.integers(0, 10**6),
)
def test_penalties_equal_the_naive_ones(
    params: SamplingParams, history: list[int], seed: int
) -> None:
    row = np.random.default_rng(seed).standard_normal(20).astype(np.float32)
    scores = naive_penalties(row, params, history)
    ranked = sorted(scores, reverse=True)
    assume(min(np.abs(np.diff(ranked))) > 1e-5)  # closer than rounding: either may be first
    expected, _ = naive(row, params, history)
    result = Sampler(params).distribution(row, history)
    assert set(result.ids.tolist()) == set(expected)
    for token, mass in expected.items():
        assert result.probability(token) == pytest.approx(mass, rel=1e-5)


def test_one_sampler_serves_rows_of_different_models() -> None:
    sampler = Sampler(SamplingParams(temperature=1.0, top_p=0.9))
    for size in (100, 6001, 100):
        row = random_row(1, size, 3.0, grid=True)
        fresh = Sampler(sampler.params).distribution(row, ())
        assert sampler.distribution(row, ()).ids.tolist() == fresh.ids.tolist()


def test_an_earlier_distribution_survives_the_next_row() -> None:
    for params in (SamplingParams(temperature=1.0), SamplingParams(temperature=1.0, top_p=0.9)):
        sampler = Sampler(params)
        first = sampler.distribution(random_row(1, 6001, 3.0, grid=False), ())
        ids, masses = first.ids.copy(), first.probabilities.copy()
        sampler.distribution(random_row(2, 6001, 3.0, grid=False), ())
        assert np.array_equal(first.ids, ids) and np.array_equal(first.probabilities, masses)


@pytest.mark.parametrize("size", [10, 7000])
def test_ties_go_to_the_lowest_ids(size: int) -> None:
    flat = np.zeros(size, np.float32)
    assert Sampler(SamplingParams()).distribution(flat, ()).ids.tolist() == [0]
    by_k = Sampler(SamplingParams(temperature=1.0, top_k=3)).distribution(flat, ())
    assert by_k.ids.tolist() == [0, 1, 2]
    by_p = Sampler(SamplingParams(temperature=1.0, top_p=0.45)).distribution(flat, ())
    assert by_p.ids.tolist() == list(range(int(size * 0.45) + (size * 0.45 % 1 > 0)))


def test_the_penalty_changes_the_greedy_choice() -> None:
    row = np.array([2.0, 1.9, -1.0], np.float32)
    sampler = Sampler(SamplingParams(repeat_penalty=1.1))
    assert sampler.distribution(row, (1, 2)).ids.tolist() == [0]
    assert sampler.distribution(row, (0,)).ids.tolist() == [1]


class EndOnly(Sequence[int]):
    """A history of a million tokens that allows its last ones to be read, in one slice."""

    def __init__(self, end: list[int]) -> None:
        self._end = end
        self.slices: list[slice] = []

    def __len__(self) -> int:
        return 1_000_000

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> Any:
        assert isinstance(index, slice) and index.start is not None and index.start < 0
        self.slices.append(index)
        return self._end[index]


def test_only_the_penalty_window_of_the_history_is_read() -> None:
    row = np.array([1.0, 2.0, 3.0], np.float32)
    history = EndOnly([2, 2, 0, 1])
    sampler = Sampler(SamplingParams(repeat_penalty=9.0, penalty_last_n=2))
    assert sampler.distribution(row, history).ids.tolist() == [2]
    assert history.slices == [slice(-2, None, None)]
    for unread in (SamplingParams(), SamplingParams(repeat_penalty=2.0, penalty_last_n=0)):
        history = EndOnly([])
        Sampler(unread).distribution(row, history)
        assert not history.slices


EVERY_PATH = [
    SamplingParams(),
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=1.0, top_k=2),
    SamplingParams(temperature=1.0, top_k=40),
    SamplingParams(temperature=1.0, top_p=0.9),
    SamplingParams(temperature=1.0, min_p=0.1),
    SamplingParams(repeat_penalty=1.5),
    SamplingParams(temperature=0.8, top_k=40, top_p=0.95, min_p=0.1, repeat_penalty=1.5),
]


@pytest.mark.parametrize("params", EVERY_PATH)
@pytest.mark.parametrize("place", [0, 1234, 2999])
@pytest.mark.parametrize(("bad", "what"), [(np.nan, "not a number"), (np.inf, "not finite")])
def test_broken_logits_are_refused(
    params: SamplingParams, place: int, bad: float, what: str
) -> None:
    row = np.zeros(3000, np.float32)
    row[place] = bad
    with pytest.raises(NativeError, match=what):
        Sampler(params).distribution(row, (1, 2))
    with pytest.raises(NativeError, match=what):
        confidence(row)


@pytest.mark.parametrize("params", EVERY_PATH)
def test_a_row_without_a_possible_token_is_refused(params: SamplingParams) -> None:
    with pytest.raises(NativeError, match="not finite"):
        Sampler(params).distribution(np.full(3000, -np.inf, np.float32), (1, 2))


@pytest.mark.parametrize("params", EVERY_PATH)
def test_impossible_tokens_are_outside_the_support(params: SamplingParams) -> None:
    row = np.full(3000, -np.inf, np.float32)
    row[[5, 2999]] = 1.0, 0.0
    support = Sampler(params).distribution(row, ()).ids.tolist()
    assert support == ([5] if params.temperature == 0.0 else [5, 2999])


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-40, 1e-6])
@pytest.mark.parametrize("top_k", [0, 40])
def test_a_tiny_temperature_is_greedy(temperature: float, top_k: int) -> None:
    row = random_row(3, 6001, 3.0, grid=False)
    sampler = Sampler(SamplingParams(temperature=temperature, top_k=top_k))
    assert sampler.distribution(row, ()).ids.tolist() == [int(np.argmax(row))]


@given(SIZES, st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 3.0, 20.0]))
def test_confidence_is_the_largest_softmax_probability(size: int, seed: int, spread: float) -> None:
    row = random_row(seed, size, spread, grid=False)
    exact = 1.0 / np.exp(row.astype(np.float64) - float(row.max())).sum()
    assert confidence(row) == pytest.approx(exact, rel=0.002)
