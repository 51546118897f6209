"""Recurrent targets go back to a kept state where their caches cannot be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.control.controller import AlwaysDraft
from engine.data.widths import WidthClass
from engine.drafters.models.drafter import ModelDrafter, SameTokens
from engine.llama.abort import AbortFlag, PassAborted
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.llama.native_context import PREFILL_CHUNK
from tests.engine.conftest import THREADS
from tests.odd_gguf import write_hybrid, write_interval, write_recurrent

WRITERS: tuple[Callable[[Path], Path], ...] = (write_hybrid, write_interval, write_recurrent)
WORDS = list(range(20, 120))
CLOSE = 0.01
"""Of logits in [-10, 10]: what passes of other widths make of them."""
BEGUN = 32
"""What is read again of a prompt at least."""


def options(exact: bool) -> ContextOptions:
    return ContextOptions(2048, 8, THREADS, exact=WidthClass((1, 2, 4, 8)) if exact else None)


@pytest.fixture(scope="module", params=WRITERS, ids=lambda writer: writer.__name__)
def model(
    request: pytest.FixtureRequest, library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    path = request.param(tmp_path_factory.mktemp("recurrent") / "target.gguf")
    with Model(path, ModelOptions(), library.log) as model:
        yield model


@pytest.fixture
def context(model: Model) -> Iterator[Context]:
    with Context(model, options(exact=False), AbortFlag()) as context:
        yield context


@pytest.fixture
def strict(model: Model) -> Iterator[Context]:
    with Context(model, options(exact=True), AbortFlag()) as context:
        yield context


def words(count: int, seed: int = 0) -> list[int]:
    return [int(one) for one in np.random.default_rng(seed).choice(WORDS, count)]


def read(context: Context, tokens: list[int], begun: int = 0) -> int:
    """Reads a prompt as a reply does; how much of it was there."""
    reused = context.reuse(tokens, begun)
    for start in range(reused, len(tokens), PREFILL_CHUNK):
        context.feed(tokens[start : start + PREFILL_CHUNK])
    assert context.tokens == tokens
    return reused


def write(context: Context, tokens: list[int]) -> list[NDArray[np.float32]]:
    """Token by token, as plain decoding does."""
    return [context.extend([token])[0].copy() for token in tokens]


def anew(context: Context, prompt: list[int], reply: list[int]) -> list[NDArray[np.float32]]:
    context.clear()
    assert read(context, prompt) == 0
    return write(context, reply)


def test_the_next_prompt_leaves_the_last_one_near_its_end(context: Context) -> None:
    prompt = words(100)
    read(context, prompt)
    write(context, words(60, 1))
    following = prompt[:-5] + words(40, 2)
    assert read(context, following) == len(prompt) - BEGUN
    rows = write(context, words(3, 3))
    expected = anew(context, following, words(3, 3))
    np.testing.assert_allclose(rows, expected, atol=CLOSE)
    write(context, words(60, 5))
    third = following[:-5] + words(30, 4)
    assert read(context, third) == len(following) - BEGUN


def test_strict_rows_are_those_of_an_empty_cache(strict: Context) -> None:
    """Bit by bit, over several turns; what is read again is less than two passes."""
    prompt = words(PREFILL_CHUNK + 300)
    assert read(strict, prompt) == 0
    for turn in range(3):
        write(strict, words(50, turn))
        prompt = prompt[:-5] + words(150, 10 + turn)
        reused = read(strict, prompt)
        assert reused % PREFILL_CHUNK == 0
        assert len(prompt) - reused < 2 * PREFILL_CHUNK
        rows = write(strict, words(4, 20))
        tokens = list(strict.tokens)
        assert np.array_equal(rows, anew(strict, prompt, words(4, 20)))
        assert strict.tokens == tokens


def test_the_end_of_a_reply_that_goes_on_is_no_place(context: Context) -> None:
    """The next prompt has none of it: the state is kept before the reply."""
    prompt, reply = words(100), words(80, 1)
    assert read(context, prompt + reply, begun=len(reply)) == 0
    assert read(context, prompt[:-5] + words(20, 2)) == len(prompt) - BEGUN


def test_what_was_before_it_is_read_again(context: Context) -> None:
    prompt = words(100)
    read(context, prompt)
    write(context, words(60, 1))
    assert read(context, prompt[:50] + words(60, 2)) == 0
    assert read(context, prompt) in (0, 50), "what it kept is of another text"
    rows = write(context, words(3, 3))
    np.testing.assert_allclose(rows, anew(context, prompt, words(3, 3)), atol=CLOSE)


def test_a_short_prompt_has_no_state(context: Context) -> None:
    read(context, words(BEGUN))
    write(context, words(60, 1))
    assert read(context, words(BEGUN)[:-5] + words(60, 2)) == 0


def test_a_cleared_cache_has_none_either(context: Context) -> None:
    prompt = words(100)
    read(context, prompt)
    context.clear()
    context.feed(words(10, 5))
    assert read(context, prompt) == 0


def test_a_draft_model_goes_back_too(model: Model, context: Context) -> None:
    """In its own context, whatever the target is."""
    translation = SameTokens(model.vocab.size, model.vocab.size)
    drafter = ModelDrafter("draft", context, translation, 0, lambda: None)
    prompt = words(100)
    drafter.begin(prompt)
    drafter.prepare(AlwaysDraft(4).of("draft"))
    assert context.tokens == prompt[:-1]
    write(context, words(60, 1))
    drafter.begin(prompt[:-5] + words(60, 2))
    assert len(context.tokens) == len(prompt) - 1 - BEGUN


def test_a_stopped_pass_leaves_what_was_kept(model: Model) -> None:
    abort = AbortFlag()
    with Context(model, options(exact=False), abort) as context:
        prompt = words(100)
        read(context, prompt)
        write(context, words(60, 1))
        abort.set()
        with pytest.raises(PassAborted):
            context.feed(words(300, 2))
        abort.clear()
        held = list(context.tokens)
        assert held == (prompt + words(60, 1))[: len(held)]
        following = prompt[:-5] + words(60, 2)
        assert read(context, following) == len(prompt) - BEGUN
        rows = write(context, words(3, 3))
        np.testing.assert_allclose(rows, anew(context, following, words(3, 3)), atol=CLOSE)
