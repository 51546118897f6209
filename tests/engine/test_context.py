"""The starter's context: rollback, trees and stopped passes against fresh prefills."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from engine.data.errors import ModelFileError
from engine.data.widths import WidthClass
from engine.llama.abort import AbortFlag, PassAborted
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.proposal import ROOT, Proposal
from tests.engine.conftest import THREADS
from tests.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.model

TEXT = "The capital of France is Paris. The capital of Germany is"
CLOSE = 0.02
"""Divergence of two next-token distributions that kernels for other shapes may cause."""


@pytest.fixture(scope="module")
def text(starter: Model) -> list[int]:
    return starter.vocab.tokenize(TEXT, add_special=True, parse_special=False)


def divergence(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """Kullback-Leibler divergence of the distributions that two rows of logits stand for."""
    p, q = (row.astype(np.float64) - logsumexp(row.astype(np.float64)) for row in (first, second))
    return float(np.sum(np.exp(p) * (p - q)))


def fresh_row(context: Context, tokens: Sequence[int]) -> NDArray[np.float32]:
    """Logits after `tokens`, prefilled from nothing."""
    context.clear()
    context.feed(tokens[:-1])
    row: NDArray[np.float32] = context.extend(tokens[-1:])[0]
    return row.copy()


def prefill(context: Context, tokens: Sequence[int]) -> None:
    context.clear()
    context.feed(tokens[:-1])


def tree_of(paths: Sequence[Sequence[int]]) -> Proposal:
    """The smallest tree with these paths."""
    nodes: dict[tuple[int, ...], int] = {}
    tokens: list[int] = []
    parents: list[int] = []
    for path in paths:
        for depth in range(1, len(path) + 1):
            prefix = tuple(path[:depth])
            if prefix not in nodes:
                nodes[prefix] = len(tokens)
                tokens.append(path[depth - 1])
                parents.append(nodes.get(prefix[:-1], ROOT))
    count = len(tokens)
    return Proposal(tuple(tokens), tuple(parents), ("scripted",) * count, (None,) * count)


CHAIN = Proposal.chain([400, 500, 600, 700], "scripted")
TREE = tree_of([[400, 500, 600], [400, 501], [400, 502, 77, 78], [401], [402, 500]])


@pytest.mark.parametrize("kept", [0, 1, 3, 4])
def test_logits_after_a_rejection_are_those_of_a_fresh_prefill(
    starter_context: Context, text: list[int], kept: int
) -> None:
    context = starter_context
    after = [*text, *CHAIN.tokens[:kept], 900]
    expected = fresh_row(context, after)
    prefill(context, text)
    context.verify(text[-1], CHAIN)
    context.keep_path(text[-1], CHAIN, range(kept))
    assert context.tokens == after[:-1]
    assert divergence(expected, context.extend([900])[0]) < CLOSE


def test_every_node_of_a_tree_has_the_logits_of_its_own_chain(
    starter_context: Context, text: list[int]
) -> None:
    context = starter_context
    expected = [fresh_row(context, text)]
    for node in range(len(TREE)):
        path = [TREE.tokens[index] for index in TREE.path(node)]
        expected.append(fresh_row(context, [*text, *path]))
    prefill(context, text)
    rows = context.verify(text[-1], TREE)
    for row, own in zip(rows, expected, strict=True):
        assert divergence(own, row) < CLOSE
    others = [divergence(a, b) for a, b in itertools.permutations(expected, 2)]
    assert min(others) > 3 * CLOSE, "the comparison would not notice a wrong branch"


@pytest.mark.parametrize("leaf", [None, 0, 2, 3, 5, 6, 8])
def test_keeping_a_path_of_a_tree_leaves_that_path_alone(
    starter_context: Context, text: list[int], leaf: int | None
) -> None:
    context = starter_context
    path = () if leaf is None else TREE.path(leaf)
    after = [*text, *(TREE.tokens[node] for node in path)]
    expected = fresh_row(context, [*after, 900])
    expected_second = fresh_row(context, [*after, 900, 901])
    prefill(context, text)
    context.verify(text[-1], TREE)
    context.keep_path(text[-1], TREE, path)
    assert context.tokens == after
    assert divergence(expected, context.extend([900])[0]) < CLOSE
    assert divergence(expected_second, context.extend([901])[0]) < CLOSE


def test_trees_round_after_round(starter_context: Context, text: list[int]) -> None:
    """Holes that rejected branches leave in the cache change nothing."""
    context = starter_context
    generator = np.random.default_rng(4)
    prefill(context, text)
    tokens = list(text)
    for _ in range(8):
        path = TREE.path(int(generator.integers(len(TREE))))
        context.verify(tokens[-1], TREE)
        context.keep_path(tokens[-1], TREE, path)
        tokens += [*(TREE.tokens[node] for node in path), int(generator.integers(1000))]
        assert context.tokens == tokens[:-1]
    row = context.extend(tokens[-1:])[0].copy()
    assert divergence(fresh_row(context, tokens), row) < CLOSE


@pytest.mark.parametrize("leaf", [5, 6, 8])
def test_in_exact_order_a_kept_path_is_bit_for_bit_a_chain(
    starter: Model, text: list[int], leaf: int
) -> None:
    """Whatever was rejected around it; the chain is fed in the same passes."""
    path = TREE.path(leaf)
    chain = [text[-1], *(TREE.tokens[node] for node in path)]
    options = ContextOptions(256, 65, THREADS, max_leaves=8, exact=WidthClass(tuple(range(1, 17))))
    with Context(starter, options, AbortFlag()) as context:
        prefill(context, text)
        context.extend(chain)
        expected = [context.extend([token])[0].copy() for token in (900, 901)]
        prefill(context, text)
        context.verify(text[-1], TREE)
        context.keep_path(text[-1], TREE, path)
        assert context.tokens == [*text[:-1], *chain]
        for token, row in zip((900, 901), expected, strict=True):
            np.testing.assert_array_equal(context.extend([token])[0], row)


def test_a_tree_with_too_many_leaves_is_refused_before_the_pass(
    starter_context: Context, text: list[int]
) -> None:
    prefill(starter_context, text)
    wide = tree_of([[400 + index] for index in range(9)])
    with pytest.raises(ValueError, match="9 leaves"):
        starter_context.verify(text[-1], wide)
    assert starter_context.tokens == text[:-1]


def test_reuse_keeps_the_common_prefix_only(starter_context: Context, text: list[int]) -> None:
    context = starter_context
    expected = fresh_row(context, [*text[:5], 900])
    prefill(context, text)
    assert context.reuse([*text[:5], 900, 901]) == 5
    assert context.tokens == text[:5]
    assert divergence(expected, context.extend([900])[0]) < CLOSE
    assert context.reuse([1, 2, 3]) == 0 and context.tokens == []


def test_a_tree_left_by_a_failed_round_is_dropped(
    starter_context: Context, text: list[int]
) -> None:
    """A round can fail between verify and keep_path, as it does on logits that are no numbers."""
    prefill(starter_context, text)
    expected = starter_context.verify(text[-1], TREE).copy()
    starter_context.reuse(text[:-1])
    for row, again in zip(expected, starter_context.verify(text[-1], TREE), strict=True):
        assert divergence(row, again) < CLOSE
    starter_context.keep_path(text[-1], TREE, ())


def test_an_abort_in_a_pass_leaves_the_state_before_it(starter: Model, text: list[int]) -> None:
    abort = AbortFlag()
    with Context(starter, ContextOptions(1024, 65, THREADS, max_leaves=8), abort) as context:
        expected = fresh_row(context, [*text, 900])
        prefill(context, text)
        abort.set()
        for attempt in (
            lambda: context.feed([400] * 300),
            lambda: context.extend([400, 401]),
            lambda: context.verify(text[-1], TREE),
        ):
            with pytest.raises(PassAborted):
                attempt()
            assert context.tokens == text[:-1]
        abort.clear()
        context.extend(text[-1:])
        assert divergence(expected, context.extend([900])[0]) < CLOSE


def test_an_abort_from_another_thread_stops_a_running_pass(starter: Model) -> None:
    abort = AbortFlag()
    with Context(starter, ContextOptions(1024, 1, THREADS), abort) as context:
        timer = threading.Timer(0.02, abort.set)
        timer.start()
        with pytest.raises(PassAborted):
            for _ in range(1000):
                context.clear()
                context.feed([400] * 512)
        timer.join()
        assert context.tokens == []


def test_the_context_is_as_long_as_was_asked_for(starter: Model) -> None:
    """llama.cpp itself rounds up to 256."""
    with Context(starter, ContextOptions(64, 8, THREADS), AbortFlag()) as context:
        assert context.length_limit == 64


def test_closing_twice_is_safe(starter: Model, tmp_path: Path, library: Library) -> None:
    context = Context(starter, ContextOptions(64, 8, THREADS), AbortFlag())
    context.close()
    context.close()
    model = Model(write_tiny_gguf(tmp_path / "tiny.gguf"), ModelOptions(), library.log)
    model.close()
    model.close()


def test_a_file_that_is_no_model_is_a_model_file_error(tmp_path: Path, library: Library) -> None:
    (tmp_path / "no.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelFileError, match=r"no\.gguf"):
        Model(tmp_path / "no.gguf", ModelOptions(), library.log)
