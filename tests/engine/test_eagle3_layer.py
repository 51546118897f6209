"""EAGLE-3's layer against numpy, and the inputs of a target's layers that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.data.errors import IncompatiblePairError, NativeError
from engine.drafters.features.capture import HiddenStateCapture
from engine.drafters.parse import parse_expression
from engine.files.gguf_data import read_tensors
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.draft_layer import Eagle3Context
from engine.llama.draft_tree import Eagle3Tree
from engine.llama.layers import CapturedLayers, ExposedLayers, open_layer_inputs
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.proposal import Proposal
from tests.eagle3_gguf import reference_draft
from tests.engine.conftest import THREADS
from tests.engine.head_bench import ARCHITECTURES, EAGLE3_LAYERS, PROMPT, Eagle3Bench
from tests.engine.open_drafter import build_drafter


@pytest.fixture(params=ARCHITECTURES)
def bench(
    request: pytest.FixtureRequest, library: Library, tmp_path: Path
) -> Iterator[Eagle3Bench]:
    with Eagle3Bench(library, tmp_path, request.param) as bench:
        yield bench


@pytest.fixture
def llama(library: Library, tmp_path: Path) -> Iterator[Eagle3Bench]:
    with Eagle3Bench(library, tmp_path, "llama") as bench:
        yield bench


def test_logits_agree_with_numpy(bench: Eagle3Bench) -> None:
    drafted = range(0, bench.model.vocab.size, 3)
    heads, shape = bench.heads(drafted)
    context = bench.context()
    embeddings = read_tensors(bench.path)["token_embd.weight"].floats()
    text = [*PROMPT, 17, 33]
    context.feed(text[:-1])
    features = context.layer_inputs(len(text) - 1)
    with Model(heads, ModelOptions(), bench.library.log) as model:
        decoder = Eagle3Context(model, context, THREADS, AbortFlag())
        states = decoder.encode(features)
        decoder.feed(text[1:-1], states[:-1])
        row, state = decoder.draft(text[-1], states[-1])
        expected, expected_state = reference_draft(shape, features, embeddings[text[1:]])
        np.testing.assert_allclose(row[::3], expected, atol=5e-3)
        np.testing.assert_allclose(state, expected_state, atol=5e-3)
        assert np.isneginf(row).sum() == len(row) - len(drafted)
        decoder.close()
        decoder.close()


def test_captured_layers_are_the_exposed_ones(llama: Eagle3Bench) -> None:
    exposed = llama.context()
    exposed.feed(PROMPT)
    captured = CapturedLayers(EAGLE3_LAYERS, llama.model.hidden_size)
    by_capture = _with_layers(llama, captured)
    by_capture.feed(PROMPT)
    found = by_capture.layer_inputs(len(PROMPT))
    np.testing.assert_array_equal(found, exposed.layer_inputs(len(PROMPT)))
    by_capture.close()


def test_capturing_changes_no_logits(library: Library, tmp_path: Path) -> None:
    with Eagle3Bench(library, tmp_path, "qwen2") as bench:
        plain = bench.context(layers=()).extend(PROMPT).copy()
        np.testing.assert_array_equal(bench.context().extend(PROMPT), plain)


def test_rows_of_a_tree_are_in_node_order(bench: Eagle3Bench) -> None:
    context = bench.context()
    tree = Proposal((5, 9, 7), (-1, -1, 0), ("t",) * 3, (None,) * 3)
    context.feed(PROMPT[:-1])
    context.verify(PROMPT[-1], tree)
    rows = context.layer_inputs(4)
    context.keep_path(PROMPT[-1], tree, (0, 2))
    context.clear()
    context.feed([*PROMPT, 5, 7])
    straight = context.layer_inputs(len(PROMPT) + 2)
    np.testing.assert_allclose(rows[[0, 1, 3]], straight[-3:], atol=1e-4)


@pytest.mark.parametrize("layers", [(-1, 1, 2), (1, 2, 5)])
def test_layers_that_do_not_exist(library: Library, layers: tuple[int, ...]) -> None:
    with pytest.raises(IncompatiblePairError, match="of a target with 5"):
        open_layer_inputs("llama", layers, 5, 64)
    assert isinstance(open_layer_inputs("llama", EAGLE3_LAYERS, 5, 64), ExposedLayers)
    assert isinstance(open_layer_inputs("qwen2", EAGLE3_LAYERS, 5, 64), CapturedLayers)


def test_an_architecture_that_shows_no_layers_is_refused_at_once(llama: Eagle3Bench) -> None:
    context = _with_layers(llama, CapturedLayers((40,), llama.model.hidden_size))
    capture = HiddenStateCapture()
    heads, _ = llama.heads()
    drafter = build_drafter(parse_expression(f"eagle3:{heads}"), llama.build(capture))
    with pytest.raises(NativeError, match="does not show the tensor l_out-39"):
        capture.connect(context)
    drafter.close()
    context.close()


def _with_layers(bench: Eagle3Bench, layers: CapturedLayers) -> Context:
    """A context of the llama target whose layers are captured instead of handed out."""
    return Context(bench.model, ContextOptions(256, 33, THREADS), AbortFlag(), layers)


def test_nodes_of_a_tree_are_what_chains_give(bench: Eagle3Bench) -> None:
    heads, _ = bench.heads(range(bench.model.vocab.size))
    context = bench.context()
    text = [*PROMPT, 17, 33]
    context.feed(text[:-1])
    features = context.layer_inputs(len(text) - 1)
    with Model(heads, ModelOptions(), bench.library.log) as model:
        decoder = Eagle3Tree(model, context, THREADS, AbortFlag(), width=3, nodes=6)
        states = decoder.encode(features)
        decoder.feed(text[1:-1], states[:-1])
        rows: dict[tuple[int, ...], NDArray[np.float32]] = {}
        for _ in range(2):  # the second tree grows where the first one was
            _, root = decoder.draft(text[-1], states[-1])
            first, below = decoder.branch([-1, -1, -1], [5, 9, 6], np.stack([root] * 3))
            second, last = decoder.branch([2, 0], [4, 4], below[[2, 0]])
            (third,), _ = decoder.branch([4], [8], last[1:])
            rows = dict(zip([(5,), (9,), (6,), (6, 4), (5, 4)], [*first, *second], strict=True))
            rows[(5, 4, 8)] = third
            with pytest.raises(ValueError, match="more nodes"):
                decoder.branch([5], [8], last[1:])
            decoder.truncate(len(text) - 2)
        for path, row in rows.items():
            found, state = decoder.draft(text[-1], states[-1])
            for token in path:
                found, state = decoder.draft(token, state)
            np.testing.assert_allclose(row, found, atol=1e-3)
            decoder.truncate(len(text) - 2)
        decoder.close()
