"""EAGLE-3 drafters that fail, do not fit their target, or cannot be built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.data.errors import (
    BadOptionError,
    DrafterError,
    IncompatiblePairError,
    ModelFileError,
    NativeError,
    UnknownModelError,
)
from engine.drafters.features.capture import HiddenStateCapture
from engine.drafters.features.decoder import Decoder, DraftStep
from engine.drafters.features.drafter import DrafterLabel, FeatureDrafter
from engine.drafters.parse import parse_expression
from engine.files.gguf import inspect
from engine.heads.pairing import heads_obstacle, read_eagle3
from engine.llama.context import Context
from engine.llama.library import Library
from tests.eagle3_gguf import Eagle3Shape, write_eagle3
from tests.engine.head_bench import EAGLE3_LAYERS, PROMPT, Eagle3Bench, argmax_round
from tests.engine.open_drafter import build_drafter
from tests.engine.tiny_replies import TinyReply


@pytest.fixture
def llama(library: Library, tmp_path: Path) -> Iterator[Eagle3Bench]:
    with Eagle3Bench(library, tmp_path, "llama") as bench:
        yield bench


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
def test_a_chat_goes_on_without_a_drafter_that_fails(llama: Eagle3Bench, at: int) -> None:
    context = llama.context()
    plain = TinyReply(context, None, PROMPT)
    closed: list[bool] = []

    def open_decoder(target: Context) -> Decoder:
        return FailingDecoder(at)

    drafter = FeatureDrafter(
        DrafterLabel("e", "fails", 0),
        EAGLE3_LAYERS,
        open_decoder,
        lambda _token: False,
        lambda: closed.append(True),
    )
    capture = HiddenStateCapture()
    capture.want(drafter)
    context.clear()
    capture.connect(context)
    reply = TinyReply(context, drafter, PROMPT)
    assert reply.tokens == plain.tokens
    assert len(reply.notices) == 1 and "code -3" in reply.notices[0]
    again = TinyReply(context, drafter, PROMPT)
    assert again.tokens == plain.tokens and again.notices == [], "the next reply drafts again"
    drafter.close()
    assert closed == [True]


def test_which_targets_a_drafter_fits(llama: Eagle3Bench, tmp_path: Path) -> None:
    size = llama.model.vocab.size
    wrong = {
        "hidden size of 32, not 64": Eagle3Shape(32, size, EAGLE3_LAYERS),
        "vocabulary of 99 tokens": Eagle3Shape(64, 99, EAGLE3_LAYERS),
        "reads layers 2, 15, 27": Eagle3Shape(64, size, (2, 15, 27)),
    }
    for message, shape in wrong.items():
        path = write_eagle3(tmp_path / "wrong.gguf", shape)
        with pytest.raises(IncompatiblePairError, match=message):
            build_drafter(parse_expression(f"eagle3:{path}"), llama.build(HiddenStateCapture()))
    with pytest.raises(ModelFileError, match="not an EAGLE-3 drafter"):
        read_eagle3(llama.path)
    fitting = llama.heads()[0]
    assert inspect(fitting).needs == "EAGLE-3"
    assert heads_obstacle(llama.path, fitting) == ""
    write_eagle3(path, Eagle3Shape(32, size, EAGLE3_LAYERS))
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
def test_wrong_expressions(llama: Eagle3Bench, expression: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        build_drafter(parse_expression(expression), llama.build(HiddenStateCapture()))


def test_an_unconnected_drafter_is_an_error_of_the_drafter(llama: Eagle3Bench) -> None:
    drafter = build_drafter(
        parse_expression(f"eagle3:{llama.heads()[0]}"), llama.build(HiddenStateCapture())
    )
    assert isinstance(drafter, FeatureDrafter)
    drafter.fed(0, PROMPT[:-1], np.zeros((len(PROMPT) - 1, 192), np.float32))
    drafter.begin(PROMPT)
    with pytest.raises(DrafterError, match="not connected"):
        drafter.propose(argmax_round(PROMPT))
    drafter.close()
