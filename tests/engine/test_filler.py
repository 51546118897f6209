"""Filler rows leave nothing: not in other rows, not in the cache, not at the context's end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.data.widths import WidthClass
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.derived import requantized_copy
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.llama.recording import PassRecorder
from engine.llama.repeat import held_state
from engine.maths.proposal import EMPTY_PROPOSAL, Proposal
from engine.measure.exact_widths import try_widths
from tests.tiny_gguf import write_tiny_gguf

TEXT = [72, 101, 108, 108, 111, 44, 32, 119, 72, 101, 108]
CHAIN = Proposal.chain([40, 50, 60], "scripted")
TREE = Proposal((40, 41, 50, 51, 60), (-1, -1, 0, 1, 3), ("scripted",) * 5, (None,) * 5)
PATHS = ((), (0,), (0, 2), (1,), (1, 3), (1, 3, 4))


@pytest.fixture(scope="module")
def model(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    folder = tmp_path_factory.mktemp("filler")
    source = write_tiny_gguf(folder / "target.gguf", layers=3)
    path: Path = requantized_copy(source, "Q4_1", folder, library.log, lambda _: None)
    with Model(path, ModelOptions(), library.log) as opened:
        yield opened


@pytest.fixture(scope="module")
def widths(model: Model) -> tuple[int, ...]:
    """Of the widest class: all that a filled pass may have."""
    classes = try_widths(model, 1, AbortFlag(), flash_attention=True).classes
    found = max((one.widths for one in classes if one.branches), key=lambda one: one.widest)
    assert found.widest == 16
    return found.widths


def opened(model: Model, exact: WidthClass, length: int = 256) -> Context:
    options = ContextOptions(
        length, 33, 1, max_leaves=4, flash_attention=True, exact=exact, embeddings=True
    )
    return Context(model, options, AbortFlag())


def verified(
    context: Context, proposal: Proposal, path: Sequence[int]
) -> tuple[NDArray[np.float32], NDArray[np.float32], bytes]:
    """Rows, hidden states, and the cache after a round on TEXT and a plain one."""
    context.clear()
    context.feed(TEXT[:-1])
    rows = context.verify(TEXT[-1], proposal).copy()
    states = context.hidden_states(len(rows)).copy()
    context.keep_path(TEXT[-1], proposal, path)
    assert context.tokens == [*TEXT, *(proposal.tokens[node] for node in path)]
    context.verify(99, EMPTY_PROPOSAL)
    context.keep_path(99, EMPTY_PROPOSAL, ())
    assert context.tokens == [*TEXT, *(proposal.tokens[node] for node in path), 99]
    return rows, states, held_state(context)


@pytest.mark.parametrize("path", PATHS)
def test_a_tree_is_the_same_with_and_without_filler(
    model: Model, widths: tuple[int, ...], path: tuple[int, ...]
) -> None:
    """Rows, states and cache; in a pass of 6 rows, and filled up to 8, 12 and 16."""
    with opened(model, WidthClass(widths)) as context:
        expected = verified(context, TREE, path)
    assert len(expected[0]) == 1 + len(TREE)
    for filled in ((8,), (12,), (16,), (8, 12, 16)):
        with opened(model, WidthClass(filled)) as context:
            found = verified(context, TREE, path)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
        assert found[2] == expected[2]


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_chain_is_the_same_with_and_without_filler(
    model: Model, widths: tuple[int, ...], kept: int
) -> None:
    with opened(model, WidthClass(widths)) as context:
        expected = verified(context, CHAIN, range(kept))
    for filled in ((4,), (10,), (16,)):
        with opened(model, WidthClass(filled)) as context:
            found = verified(context, CHAIN, range(kept))
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
        assert found[2] == expected[2]


def test_rows_of_a_tree_are_those_of_its_chains(model: Model, widths: tuple[int, ...]) -> None:
    with opened(model, WidthClass(widths)) as context:
        rows, _, _ = verified(context, TREE, ())
        for node in range(len(TREE)):
            path = TREE.path(node)
            chain = Proposal.chain([TREE.tokens[index] for index in path], "scripted")
            alone, _, _ = verified(context, chain, ())
            np.testing.assert_array_equal(alone[-1], rows[1 + node])


@pytest.mark.parametrize("filled", [(2, 3, 4, 16), (8, 12, 16), (16,)])
def test_passes_find_room_for_filler_up_to_the_contexts_end(
    model: Model, filled: tuple[int, ...]
) -> None:
    """Of every number of rows, the last of which takes the context's last place."""
    exact, length = WidthClass(filled), 256
    with opened(model, exact, length) as context:
        limit = context.length_limit
        assert limit == length - exact.most_filler
        for nodes in range(exact.widest):
            chain = Proposal.chain([40 + node for node in range(nodes)], "scripted")
            tree = Proposal(chain.tokens, (-1,) * nodes, chain.drafters, chain.distributions)
            for proposal in (chain, tree) if nodes in (2, 3, 4) else (chain,):
                context.clear()
                context.feed((TEXT * 30)[: limit - 1 - nodes])
                assert np.isfinite(context.verify(99, proposal)).all()
                context.keep_path(99, proposal, range(nodes) if proposal is chain else ())
        assert len(context.tokens) == limit


def test_a_failed_round_leaves_its_filler_until_the_next_one(
    model: Model, widths: tuple[int, ...]
) -> None:
    """Nobody called keep_path: the next reply starts from the text."""
    with opened(model, WidthClass((8, 12, 16))) as context:
        expected = verified(context, CHAIN, ())
        for proposal in (CHAIN, TREE):
            context.clear()
            context.feed(TEXT[:-1])
            context.verify(TEXT[-1], proposal)
            assert context.reuse(TEXT[:-1]) == len(TEXT) - 1
            rows = context.verify(TEXT[-1], CHAIN).copy()
            np.testing.assert_array_equal(rows, expected[0])
            context.keep_path(TEXT[-1], CHAIN, ())


@pytest.mark.parametrize("proposal", [EMPTY_PROPOSAL, CHAIN, TREE])
def test_every_pass_of_a_round_has_a_width_of_the_class(model: Model, proposal: Proposal) -> None:
    """The pass that verifies, and the one that writes a path again in the order of the text."""
    recorder = PassRecorder()
    options = ContextOptions(
        256, 33, 1, max_leaves=4, flash_attention=True, exact=WidthClass((8, 12)), recorder=recorder
    )
    with Context(model, options, AbortFlag()) as context:
        context.feed(TEXT[:-1])
        recorder.begin(8)
        context.verify(TEXT[-1], proposal)
        assert recorder.rows().shape[0] == 8
        recorder.begin(8)
        context.keep_path(TEXT[-1], proposal, (1, 3) if proposal is TREE else ())
        assert len(recorder.rows()) == (8 if proposal is TREE else 0)
        assert len(context.tokens) == len(TEXT) + (2 if proposal is TREE else 0)
