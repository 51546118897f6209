"""EAGLE-3: the layer against numpy, following a chat, and replies of tiny targets.

The targets are random; the drafters know only tokens of the plain reply, so that some of their
proposals are right by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.control.controller import AlwaysDraft
from engine.drafters.base import DraftRound, StepDrafter
from engine.drafters.build import build_drafter
from engine.drafters.expression import parse_expression
from engine.drafters.features import Decoder, DrafterLabel, DraftStep, FeatureDrafter
from engine.drafters.tap import TargetTap
from engine.drafters.workshop import Workshop
from engine.errors import (
    BadOptionError,
    DrafterError,
    IncompatiblePairError,
    ModelFileError,
    NativeError,
    UnknownModelError,
)
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.draft_layer import Eagle3Context
from engine.llama.draft_tree import Eagle3Tree
from engine.llama.layers import CapturedLayers, ExposedLayers, open_layer_inputs
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.models.gguf import inspect
from engine.models.gguf_data import read_tensors
from engine.models.heads import heads_obstacle, read_eagle3
from engine.proposal import Proposal
from engine.randomness import IndependentStream
from engine.request import SamplingParams
from engine.sampling import Sampler
from tests.eagle3_gguf import Eagle3Shape, reference_draft, write_eagle3
from tests.engine.conftest import THREADS
from tests.engine.tiny_replies import TinyReply
from tests.tiny_gguf import write_tiny_gguf

LAYERS = (1, 2, 4)
PROMPT = [72, 101, 108, 108, 111, 44, 32, 119]
ARCHITECTURES = ("llama", "qwen2")
"""One hands out its layer inputs, of the other they are captured."""


class Bench:
    """A tiny target, and contexts and drafters for it."""

    def __init__(self, library: Library, folder: Path, architecture: str) -> None:
        self.path = write_tiny_gguf(
            folder / f"{architecture}.gguf", layers=5, architecture=architecture
        )
        self.folder = folder
        self.library = library
        self.model = Model(self.path, ModelOptions(), library.log)
        self._opened: list[Callable[[], None]] = [self.model.close]

    def context(self, layers: Sequence[int] = LAYERS, leaves: int = 16) -> Context:
        options = ContextOptions(256, 33, THREADS, max_leaves=leaves, layer_inputs=tuple(layers))
        context = Context(self.model, options, AbortFlag())
        self._opened.append(context.close)
        return context

    def heads(self, drafted: Sequence[int] = (), seed: int = 0) -> tuple[Path, Eagle3Shape]:
        shape = Eagle3Shape(
            self.model.hidden_size, self.model.vocab.size, LAYERS, sorted(drafted), seed=seed
        )
        return write_eagle3(self.folder / f"heads-{len(self._opened)}.gguf", shape), shape

    def drafter(self, heads: Path, context: Context, kind: str = "eagle3:{}") -> StepDrafter:
        tap = TargetTap()
        drafter = build_drafter(parse_expression(kind.format(heads)), self.workshop(tap))
        self._opened.append(drafter.close)
        tap.connect(context)
        return drafter  # type: ignore[return-value]

    def workshop(self, tap: TargetTap) -> Workshop:
        def find_model(reference: str) -> Path:
            raise UnknownModelError(f"no {reference}")

        return Workshop(
            self.model, 256, THREADS, 0, AbortFlag(), self.library.log, self.folder, find_model,
            lambda _label, _fraction: None, tap,
        )  # fmt: skip

    def close(self) -> None:
        for close in reversed(self._opened):
            close()


@pytest.fixture(params=ARCHITECTURES)
def bench(request: pytest.FixtureRequest, library: Library, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(library, tmp_path, request.param)
    yield bench
    bench.close()


@pytest.fixture
def llama(library: Library, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(library, tmp_path, "llama")
    yield bench
    bench.close()


def draft_round(context: Sequence[int], depth: int = 4) -> DraftRound:
    return DraftRound(
        context=list(context),
        max_depth=depth,
        sampler=Sampler(SamplingParams(temperature=0.0)),
        mode="argmax",
        stream=IndependentStream(5, "draft"),
        policy=AlwaysDraft(depth),
    )


# The layer and its inputs


def test_logits_agree_with_numpy(bench: Bench) -> None:
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


def test_captured_layers_are_the_exposed_ones(llama: Bench) -> None:
    exposed = llama.context()
    exposed.feed(PROMPT)
    captured = CapturedLayers(LAYERS, llama.model.hidden_size)
    by_capture = _with_layers(llama, captured)
    by_capture.feed(PROMPT)
    found = by_capture.layer_inputs(len(PROMPT))
    np.testing.assert_array_equal(found, exposed.layer_inputs(len(PROMPT)))
    by_capture.close()


def test_capturing_changes_no_logits(library: Library, tmp_path: Path) -> None:
    bench = Bench(library, tmp_path, "qwen2")
    plain = bench.context(layers=()).extend(PROMPT).copy()
    np.testing.assert_array_equal(bench.context().extend(PROMPT), plain)
    bench.close()


def test_rows_of_a_tree_are_in_node_order(bench: Bench) -> None:
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
    assert isinstance(open_layer_inputs("llama", LAYERS, 5, 64), ExposedLayers)
    assert isinstance(open_layer_inputs("qwen2", LAYERS, 5, 64), CapturedLayers)


def test_an_architecture_that_shows_no_layers_is_refused_at_once(llama: Bench) -> None:
    context = _with_layers(llama, CapturedLayers((40,), llama.model.hidden_size))
    tap = TargetTap()
    heads, _ = llama.heads()
    drafter = build_drafter(parse_expression(f"eagle3:{heads}"), llama.workshop(tap))
    with pytest.raises(NativeError, match="does not show the tensor l_out-39"):
        tap.connect(context)
    drafter.close()
    context.close()


def _with_layers(bench: Bench, layers: CapturedLayers) -> Context:
    """A context of the llama target whose layers are captured instead of handed out."""

    class Capturing(Context):
        def _params(self) -> object:
            self._layers = layers
            return super()._params()

    return Capturing(bench.model, ContextOptions(256, 33, THREADS), AbortFlag())


# Following a chat


def test_replies_are_the_plain_ones(bench: Bench) -> None:
    context = bench.context()
    plain = TinyReply(context, None, PROMPT)
    heads, _ = bench.heads(set(plain.tokens))
    for kind in ("eagle3:{}", "eagle3:tree=12:{}", "tree(eagle3:{})", "first(ngram,eagle3:{})"):
        context.clear()
        drafter = bench.drafter(heads, context, kind)
        accepted = 0
        for _ in range(2):  # the second one reuses the cache
            reply = TinyReply(context, drafter, PROMPT)
            assert reply.tokens == plain.tokens and reply.notices == []
            accepted += reply.accepted
        assert accepted > 0 and reply.rounds[0].proposed
        assert reply.reused == len(PROMPT) - 1
        context.listener = None


def test_seeded_replies_are_the_plain_ones(llama: Bench) -> None:
    context = llama.context()
    sampling = SamplingParams(temperature=0.8, seed=4)
    plain = TinyReply(context, None, PROMPT, sampling=sampling)
    drafter = llama.drafter(llama.heads(set(plain.tokens))[0], context)
    reply = TinyReply(context, drafter, PROMPT, sampling=sampling)
    assert reply.tokens == plain.tokens and reply.accepted > 0


def test_what_it_follows_leaves_no_trace(bench: Bench) -> None:
    """After edits, switches, rejections and plain replies it drafts as a fresh one does."""
    context = bench.context()
    first = TinyReply(context, None, PROMPT)
    heads, _ = bench.heads(set(first.tokens))
    used = bench.drafter(heads, context)
    long = [*PROMPT, *first.tokens, 44, 50, 61]
    chats = [PROMPT, long, [*long[:20], 3, 4, 5], [9, 8, 7], PROMPT, long[:-1], long]
    chats.append([long[0] + 1, *long[1:]])  # other states under the same tokens
    for number, chat in enumerate(chats):
        reply = TinyReply(context, used if number != 3 else None, chat, count=12)
        assert reply.notices == []
        if number == 3:
            continue
        text = [*chat, *reply.tokens]
        row = _first_row(used, text)
        np.testing.assert_allclose(row, _fresh_row(bench, heads, text), atol=1e-3)


def _first_row(drafter: StepDrafter, text: Sequence[int]) -> NDArray[np.float32]:
    assert drafter.start(draft_round(text))
    assert drafter.peek() is not None
    row = np.zeros(300, np.float32)
    for token, chance in drafter.alternatives(12):
        row[token] = chance
    return row


def _fresh_row(bench: Bench, heads: Path, text: Sequence[int]) -> NDArray[np.float32]:
    context = bench.context()
    drafter = bench.drafter(heads, context)
    context.feed(text[:-1])
    drafter.begin(text)
    return _first_row(drafter, text)


def test_long_prompts_are_followed_in_parts(llama: Bench) -> None:
    """Same draft whether the prompt came at once, in parts, or over the limit of waiting rows."""
    options = ContextOptions(1024, 33, THREADS, layer_inputs=LAYERS)
    text = np.random.default_rng(0).integers(5, 250, 700).tolist()
    rows = []
    heads, _ = llama.heads(range(0, 200, 2))
    for step in (512, 150, 7):
        context = Context(llama.model, options, AbortFlag())
        drafter = llama.drafter(heads, context)
        for start in range(0, len(text) - 1, step):
            context.feed(text[start : min(start + step, len(text) - 1)])
        drafter.begin(text)
        rows.append(_first_row(drafter, text))
        drafter.close()
        context.close()
    np.testing.assert_allclose(rows[1], rows[0], atol=1e-3)
    np.testing.assert_allclose(rows[2], rows[0], atol=1e-3)


def test_a_drafter_that_saw_a_gap_says_so_and_comes_back(llama: Bench) -> None:
    context = llama.context()
    heads, _ = llama.heads(range(50))
    drafter = llama.drafter(heads, context)
    context.listener, listener = None, context.listener
    context.feed(PROMPT[:4])
    context.listener = listener
    context.feed(PROMPT[4:-1])
    reply = TinyReply(context, drafter, PROMPT)
    assert reply.reused == 0 and reply.notices == [], "prefilled again, for the drafter's sake"
    assert reply.rounds[0].proposed


# Failures


class FailingDecoder:
    """Fails in the draft step `at` (from 1)."""

    hidden_size = 64

    def __init__(self, at: int) -> None:
        self.length = 0
        self._left = at

    def encode(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return features[:, :64].copy()

    def feed(self, tokens: Sequence[int], states: NDArray[np.float32]) -> None:
        self.length += len(tokens)

    def draft(self, token: int, state: NDArray[np.float32]) -> DraftStep:
        self._left -= 1
        if self._left == 0:
            raise NativeError("the drafter's pass failed with code -3")
        self.length += 1
        return np.arange(283, dtype=np.float32), state

    def truncate(self, length: int) -> None:
        self.length = min(self.length, length)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("at", [1, 6])
def test_a_chat_goes_on_without_a_drafter_that_fails(llama: Bench, at: int) -> None:
    context = llama.context()
    plain = TinyReply(context, None, PROMPT)
    closed: list[bool] = []

    def open_decoder(target: Context) -> Decoder:
        return FailingDecoder(at)

    drafter = FeatureDrafter(
        DrafterLabel("e", "fails", 0),
        LAYERS,
        open_decoder,
        lambda _token: False,
        lambda: closed.append(True),
    )
    tap = TargetTap()
    tap.want(drafter)
    context.clear()
    tap.connect(context)
    reply = TinyReply(context, drafter, PROMPT)
    assert reply.tokens == plain.tokens
    assert len(reply.notices) == 1 and "code -3" in reply.notices[0]
    again = TinyReply(context, drafter, PROMPT)
    assert again.tokens == plain.tokens and again.notices == [], "the next reply drafts again"
    drafter.close()
    assert closed == [True]


def test_which_targets_a_drafter_fits(llama: Bench, tmp_path: Path) -> None:
    size = llama.model.vocab.size
    wrong = {
        "hidden size of 32, not 64": Eagle3Shape(32, size, LAYERS),
        "vocabulary of 99 tokens": Eagle3Shape(64, 99, LAYERS),
        "reads layers 2, 15, 27": Eagle3Shape(64, size, (2, 15, 27)),
    }
    for message, shape in wrong.items():
        path = write_eagle3(tmp_path / "wrong.gguf", shape)
        with pytest.raises(IncompatiblePairError, match=message):
            build_drafter(parse_expression(f"eagle3:{path}"), llama.workshop(TargetTap()))
    with pytest.raises(ModelFileError, match="not an EAGLE-3 drafter"):
        read_eagle3(llama.path)
    fitting = llama.heads()[0]
    assert inspect(fitting).needs == "EAGLE-3"
    assert heads_obstacle(llama.path, fitting) == ""
    write_eagle3(path, Eagle3Shape(32, size, LAYERS))
    assert "hidden size" in heads_obstacle(llama.path, path)
    assert heads_obstacle(llama.path, llama.path) == "not heads of another model"
    assert heads_obstacle(fitting, fitting) == "the target needs EAGLE-3"


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("eagle3", UnknownModelError),
        ("eagle3:missing.gguf", UnknownModelError),
        ("eagle3:tree=65:x.gguf", BadOptionError),
    ],
)
def test_wrong_expressions(llama: Bench, expression: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        build_drafter(parse_expression(expression), llama.workshop(TargetTap()))


def test_an_unconnected_drafter_is_an_error_of_the_drafter(llama: Bench) -> None:
    drafter = build_drafter(
        parse_expression(f"eagle3:{llama.heads()[0]}"), llama.workshop(TargetTap())
    )
    assert isinstance(drafter, FeatureDrafter)
    drafter.fed(0, PROMPT[:-1], np.zeros((len(PROMPT) - 1, 192), np.float32))
    drafter.begin(PROMPT)
    with pytest.raises(DrafterError, match="not connected"):
        drafter.propose(draft_round(PROMPT))
    drafter.close()


def test_nodes_of_a_tree_are_what_chains_give(bench: Bench) -> None:
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
