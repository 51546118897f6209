"""EAGLE-1 and EAGLE-2 layers: against numpy, following a chat, and replies of tiny targets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from engine.data.errors import DrafterError, IncompatiblePairError, ModelFileError
from engine.data.request import SamplingParams
from engine.drafters.base import StepDrafter
from engine.drafters.features.capture import HiddenStateCapture
from engine.drafters.parse import parse_expression
from engine.heads.eagle_file import read_eagle
from engine.heads.pairing import require_eagle, target_ends
from engine.llama.abort import AbortFlag, PassAborted
from engine.llama.layers import FINAL_STATE
from engine.llama.library import Library
from engine.maths.proposal import ROOT, Proposal
from tests.eagle_files import EagleSizes, random_eagle, reference_draft, write_eagle
from tests.engine.head_bench import HIDDEN, PROMPT, EagleBench, argmax_round
from tests.engine.head_files import write_safetensors
from tests.engine.open_drafter import build_drafter
from tests.engine.tiny_replies import TinyReply


@pytest.fixture
def bench(library: Library, tmp_path: Path) -> Iterator[EagleBench]:
    with EagleBench(library, tmp_path) as bench:
        yield bench


def some_text(count: int) -> tuple[list[int], NDArray[np.float32]]:
    """Tokens after the first, and random states of as many positions."""
    random = np.random.default_rng(count)
    tokens = random.integers(0, 256, count).tolist()
    return tokens, random.standard_normal((count, HIDDEN)).astype(np.float32)


# The layer


@pytest.mark.parametrize(
    ("biases", "torch", "kind", "error"),
    [
        (False, False, "F32", 0.01),
        (True, True, "F32", 0.03),
        (True, False, "Q8_0", 0.25),  # 8 bits of the weights
    ],
)
@pytest.mark.parametrize("count", [1, 20, 300])
def test_drafted_states_and_logits_agree_with_numpy(
    bench: EagleBench, biases: bool, torch: bool, kind: str, error: float, count: int
) -> None:
    sizes = bench.sizes(biases=biases)
    decoder = bench.decoder(write_eagle(bench.folder / "layer", sizes, torch), kind)
    tokens, states = some_text(count)
    embeddings, output = (one.floats() for one in target_ends(bench.path))
    for start in range(0, count - 1, 64):
        stop = min(count - 1, start + 64)
        decoder.feed(tokens[start:stop], states[start:stop])
    drafted = [7, 9, 11]
    expected = reference_draft(sizes, states, embeddings, [*tokens, *drafted])
    row, state = decoder.draft(tokens[-1], states[-1])
    for step, token in enumerate(drafted):
        np.testing.assert_allclose(state, expected[step], atol=error)
        np.testing.assert_allclose(row, output @ expected[step], atol=4 * error)
        row, state = decoder.draft(token, state)
    assert decoder.length == count + len(drafted)


def test_nodes_of_a_tree_see_their_own_path_only(bench: EagleBench) -> None:
    sizes = bench.sizes()
    decoder = bench.decoder(write_eagle(bench.folder / "layer", sizes))
    embeddings, _ = (one.floats() for one in target_ends(bench.path))
    tokens, states = some_text(12)
    decoder.feed(tokens[:-1], states[:-1])
    paths: list[tuple[int, ...]] = []
    known: dict[tuple[int, ...], NDArray[np.float32]] = {}
    for _ in range(2):  # the second tree grows over what the first one left
        _, root = decoder.draft(tokens[-1], states[-1])
        paths.clear()
        known = {(): root}
        for parents, new in (
            ([ROOT] * 10, range(20, 30)),
            ([4, 0, 4, 9], [1, 2, 3, 4]),
            ([10, 12, 13], [5, 5, 6]),
        ):
            above = [paths[parent] if parent != ROOT else () for parent in parents]
            rows, found = decoder.branch(parents, list(new), np.stack([known[p] for p in above]))
            assert rows.shape == (len(parents), bench.model.vocab.size)
            for path, token, state in zip(above, new, found, strict=True):
                paths.append((*path, token))
                known[paths[-1]] = state
        decoder.truncate(len(tokens) - 1)
    for path in paths:
        expected = reference_draft(sizes, states, embeddings, [*tokens, *path])[-1]
        np.testing.assert_allclose(known[path], expected, atol=0.01)


def test_a_tree_beyond_its_cells_and_a_stopped_reply(bench: EagleBench) -> None:
    abort = AbortFlag()
    decoder = bench.decoder(bench.layer(), abort=abort)
    tokens, states = some_text(3)
    decoder.draft(tokens[0], states[0])
    decoder.branch([ROOT] * 128, [1] * 128, np.repeat(states[:1], 128, axis=0))
    with pytest.raises(DrafterError, match="beyond its cache"):
        decoder.branch([ROOT], [1], states[:1])
    with pytest.raises(ValueError, match="64 entries"):
        decoder.feed([1] * 65, np.zeros((65, HIDDEN), np.float32))
    abort.set()
    with pytest.raises(PassAborted):
        decoder.draft(tokens[1], states[1])
    assert decoder.length == 1


# The target's side


def test_final_states_of_prompts_and_trees(bench: EagleBench) -> None:
    """Those of prompt rows are the ones that verified rows get, also beside other layers."""
    context = bench.context(layers=(FINAL_STATE, 1))
    context.feed(PROMPT)
    fed = context.layer_inputs(len(PROMPT))
    context.clear()
    context.feed(PROMPT[:-3])
    tree = Proposal((PROMPT[-2], 9, PROMPT[-1]), (ROOT, ROOT, 0), ("t",) * 3, (None,) * 3)
    context.verify(PROMPT[-3], tree)
    rows = context.layer_inputs(4)
    np.testing.assert_allclose(rows[[0, 1, 3]], fed[-3:], atol=1e-4)
    np.testing.assert_array_equal(rows[:, :HIDDEN], context.hidden_states(4))
    context.keep_path(PROMPT[-3], tree, (0, 2))
    embeddings = target_ends(bench.path)[0].floats()
    assert np.abs(fed[:, HIDDEN:] - embeddings[PROMPT]).max() > 0.1, "the first layer's output"


def test_reading_final_states_changes_no_logits(bench: EagleBench) -> None:
    text = np.random.default_rng(1).integers(5, 250, 600).tolist()
    rows = []
    for layers in ((), (FINAL_STATE,)):
        context = bench.context(layers, length=1024)
        context.feed(text[:512])
        context.feed(text[512:-3])
        rows.append(context.extend(text[-3:]).copy())
    np.testing.assert_array_equal(rows[1], rows[0])


# Following a chat


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_replies_are_the_plain_ones(library: Library, tmp_path: Path, architecture: str) -> None:
    with EagleBench(library, tmp_path, architecture) as bench:
        context = bench.context()
        plain = TinyReply(context, None, PROMPT)
        layer = bench.layer()
        for kind in (
            "eagle:{}",
            "eagle:tree=12:{}",
            "tree(eagle:{})",
            "union(ngram,eagle:tree=8:{})",
        ):
            context.clear()
            drafter = bench.drafter(layer, context, kind)
            accepted = 0
            for _ in range(2):  # the second one reuses the cache
                reply = TinyReply(context, drafter, PROMPT)
                assert reply.tokens == plain.tokens and reply.notices == []
                accepted += reply.accepted
            assert accepted > 3 and reply.rounds[0].proposed
            assert reply.reused == len(PROMPT) - 1
            context.listener = None


@pytest.mark.parametrize("kind", ["eagle:{}", "eagle:tree=9:{}"])
def test_seeded_replies_are_the_plain_ones(bench: EagleBench, kind: str) -> None:
    context = bench.context()
    sampling = SamplingParams(temperature=0.8, seed=4)
    plain = TinyReply(context, None, PROMPT, sampling=sampling)
    drafter = bench.drafter(bench.layer(), context, kind)
    reply = TinyReply(context, drafter, PROMPT, sampling=sampling)
    assert reply.tokens == plain.tokens and reply.accepted > 0


def test_what_it_follows_leaves_no_trace(bench: EagleBench) -> None:
    """After edits, switches, rejections and plain replies it drafts as a fresh one does."""
    context = bench.context()
    first = TinyReply(context, None, PROMPT)
    layer = bench.layer()
    used = bench.step_drafter(layer, context, "eagle:tree=12:{}")
    long = [*PROMPT, *first.tokens, 44, 50, 61]
    chats = [PROMPT, long, [*long[:20], 3, 4, 5], [9, 8, 7], PROMPT, long[:-1], long]
    chats.append([long[0] + 1, *long[1:]])  # other states under the same tokens
    for number, chat in enumerate(chats):
        reply = TinyReply(context, used if number != 3 else None, chat, count=12)
        assert reply.notices == []
        if number == 3:
            continue
        text = [*chat, *reply.tokens]
        np.testing.assert_allclose(
            _first_row(used, text), _fresh_row(bench, layer, text), atol=1e-3
        )


def _first_row(drafter: StepDrafter, text: Sequence[int]) -> NDArray[np.float64]:
    assert drafter.start(argmax_round(text, temperature=1.0)) and drafter.peek() is not None
    return drafter.distribution().probabilities


def _fresh_row(bench: EagleBench, layer: Path, text: Sequence[int]) -> NDArray[np.float64]:
    context = bench.context()
    drafter = bench.step_drafter(layer, context)
    context.feed(text[:-1])
    drafter.begin(text)
    return _first_row(drafter, text)


def test_memory_comes_back(bench: EagleBench) -> None:
    layer = bench.layer(feed_forward=4096)
    process = psutil.Process()
    sizes = []
    for cycle in range(30):
        decoder = bench.decoder(layer)
        tokens, states = some_text(5)
        decoder.draft(tokens[0], states[0])
        decoder.branch([ROOT] * 3, tokens[:3], states[:3])
        decoder.close()
        decoder.close()
        if cycle >= 5:
            sizes.append(process.memory_info().rss)
    assert sizes[-1] - sizes[0] < 5e6, "each cycle takes 1 MB"


# Refusals


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_hidden_layers": 2}, "more than one layer"),
        ({"hidden_act": "gelu"}, "with gelu"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "llama3 rope scaling"),
        ({"intermediate_size": 95}, "not \\(95, 64\\)"),
        ({"num_key_value_heads": 3}, "impossible numbers"),
        ({"hidden_size": "64"}, "hidden_size is not a positive number"),
    ],
)
def test_checkpoints_that_cannot_be_used(
    bench: EagleBench, config: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelFileError, match=message):
        read_eagle(write_eagle(bench.folder / "layer", bench.sizes(), config=config))


def test_incomplete_and_foreign_checkpoints(bench: EagleBench) -> None:
    folder = bench.layer()
    weights = random_eagle(bench.sizes())
    write_safetensors(
        folder / "model.safetensors", {**weights, "lm_head.weight": weights["fc.weight"]}
    )
    with pytest.raises(ModelFileError, match=r"lm_head\.weight"):
        read_eagle(folder)
    del weights["layers.0.mlp.up_proj.weight"]
    write_safetensors(folder / "model.safetensors", weights)
    with pytest.raises(ModelFileError, match=r"lacks layers\.0\.mlp\.up_proj"):
        read_eagle(folder / "model.safetensors")


def test_which_targets_a_layer_fits(bench: EagleBench) -> None:
    size = bench.model.vocab.size
    assert require_eagle(bench.path, bench.layer()).shape.hidden == HIDDEN
    for sizes, message in (
        (EagleSizes(32, size), "hidden size of 32, not 64"),
        (EagleSizes(64, 99), "vocabulary of 99 tokens"),
    ):
        folder = write_eagle(bench.folder / "wrong", sizes)
        with pytest.raises(IncompatiblePairError, match=message):
            build_drafter(parse_expression(f"eagle:{folder}"), bench.build(HiddenStateCapture()))


def test_linear_rope_scaling_is_a_factor_of_the_positions(bench: EagleBench) -> None:
    scaling = {"type": "linear", "factor": 4.0}
    folder = write_eagle(bench.folder / "layer", bench.sizes(), config={"rope_scaling": scaling})
    assert read_eagle(folder).shape.rope_scale == 0.25
    values = json.loads((folder / "config.json").read_text())
    assert "rope_theta" not in values and read_eagle(folder).shape.rope_base == 10_000.0
