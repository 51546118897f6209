"""MTP: a model drafts for itself with its layer for the token after the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.control.controller import AlwaysDraft
from engine.data.errors import BadOptionError, IncompatiblePairError
from engine.data.folders import DataFolder
from engine.data.request import LoadRequest, SamplingParams
from engine.drafters.base import Drafter, DraftRound, StepDrafter
from engine.drafters.build_context import BuildContext
from engine.drafters.features.capture import HiddenStateCapture
from engine.drafters.parse import parse_expression
from engine.files.gguf import inspect
from engine.heads.pairing import mtp_obstacle
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.randomness import IndependentStream
from engine.maths.sampling import Sampler
from engine.serving.session import Session
from tests.engine.conftest import THREADS
from tests.engine.open_drafter import build_drafter
from tests.engine.tiny_replies import TinyReply
from tests.mtp_gguf import LAYERS, write_mtp_gguf
from tests.tiny_gguf import write_tiny_gguf

PROMPT = [72, 101, 108, 108, 111, 44, 32, 119]


@pytest.fixture
def target(library: Library, tmp_path: Path) -> Iterator[Model]:
    path = write_mtp_gguf(tmp_path / "target.gguf")
    with Model(path, ModelOptions(mtp=True), library.log) as model:
        yield model


def open_context(target: Model) -> Context:
    options = ContextOptions(256, 33, THREADS, max_leaves=14, layer_inputs=(target.layers,))
    return Context(target, options, AbortFlag())


@pytest.fixture
def context(target: Model) -> Iterator[Context]:
    with open_context(target) as context:
        yield context


def open_drafter(library: Library, context: Context, expression: str = "mtp") -> Drafter:
    capture = HiddenStateCapture()
    build = BuildContext(
        context.model, 256, THREADS, 0, AbortFlag(), library.log, Path(),
        lambda _label, _fraction: None, capture,
    )  # fmt: skip
    drafter = build_drafter(parse_expression(expression), build)
    capture.connect(context)
    return drafter


def open_step_drafter(library: Library, context: Context) -> StepDrafter:
    drafter = open_drafter(library, context)
    assert isinstance(drafter, StepDrafter)
    return drafter


@pytest.mark.parametrize("expression", ["mtp", "tree(mtp)", "first(ngram,mtp)"])
@pytest.mark.parametrize("seed", [None, 5])
def test_replies_are_the_plain_ones(
    library: Library, context: Context, expression: str, seed: int | None
) -> None:
    sampling = SamplingParams(temperature=0.0 if seed is None else 0.8, seed=seed)
    plain = TinyReply(context, None, PROMPT, sampling=sampling)
    drafter = open_drafter(library, context, expression)
    for _ in range(2):
        reply = TinyReply(context, drafter, PROMPT, sampling=sampling)
        assert reply.tokens == plain.tokens and reply.notices == []
        assert reply.accepted > 0 and reply.rounds[0].proposed
    drafter.close()


def first_row(drafter: StepDrafter, text: Sequence[int]) -> NDArray[np.float32]:
    round_ = DraftRound(
        list(text), 4, Sampler(SamplingParams(temperature=0.0)), "argmax",
        IndependentStream(5, "draft"), AlwaysDraft(4),
    )  # fmt: skip
    assert drafter.start(round_)
    assert drafter.peek() is not None
    row = np.zeros(300, np.float32)
    for token, chance in drafter.alternatives(8):
        row[token] = chance
    return row


def test_what_it_follows_leaves_no_trace(library: Library, target: Model, context: Context) -> None:
    used = open_step_drafter(library, context)
    first = TinyReply(context, used, PROMPT)
    long = [*PROMPT, *first.tokens, 44, 50, 61]
    for chat in (long, [*long[:20], 3, 4, 5], PROMPT, long[:-1], long):
        reply = TinyReply(context, used, chat, count=12)
        text = [*chat, *reply.tokens]
        row = first_row(used, text)
        with open_context(target) as other:
            fresh = open_step_drafter(library, other)
            other.feed(text[:-1])
            fresh.begin(text)
            np.testing.assert_allclose(row, first_row(fresh, text), atol=1e-3)
            fresh.close()
    used.close()


def test_loads_with_mtp(library: Library, tmp_path: Path) -> None:
    session = Session(library, DataFolder(tmp_path / "data"), AbortFlag())
    path = write_mtp_gguf(tmp_path / "target.gguf")

    def load(target: Path, drafter: str | None) -> None:
        request = LoadRequest(str(target), drafter, context_length=256, threads=THREADS)
        session.load(request, lambda _label, _fraction: None)

    load(path, "mtp")
    assert session.summary is not None
    assert session.summary.drafters[0].name == "mtp"
    plain = write_tiny_gguf(tmp_path / "plain.gguf")
    with pytest.raises(IncompatiblePairError, match="no MTP layer"):
        load(plain, "mtp")
    assert session.summary is not None and session.summary.drafters[0].name == "mtp"
    session.unload()


def test_which_models_can(tmp_path: Path) -> None:
    assert mtp_obstacle(inspect(write_mtp_gguf(tmp_path / "one.gguf"))) == ""
    two = inspect(write_mtp_gguf(tmp_path / "two.gguf", nextn=2))
    assert "several" in mtp_obstacle(two) and two.block_count == LAYERS + 2
    assert "no MTP layer" in mtp_obstacle(inspect(write_mtp_gguf(tmp_path / "0.gguf", nextn=0)))
    with pytest.raises(BadOptionError):
        parse_expression("mtp:1")
