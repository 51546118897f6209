"""EAGLE-3 following a chat, and replies of tiny targets.

The targets are random; the drafters know only tokens of the plain reply, so that some of their
proposals are right by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.data.request import SamplingParams
from engine.drafters.base import Measurable, StepDrafter
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from tests.engine.conftest import THREADS
from tests.engine.head_bench import ARCHITECTURES, EAGLE3_LAYERS, PROMPT, Eagle3Bench, argmax_round
from tests.engine.tiny_replies import TinyReply


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


def test_replies_are_the_plain_ones(bench: Eagle3Bench) -> None:
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


def test_measuring_its_costs_leaves_no_trace(bench: Eagle3Bench) -> None:
    context = bench.context()
    heads, _ = bench.heads(set(TinyReply(context, None, PROMPT).tokens))
    for kind in ("eagle3:{}", "eagle3:tree=12:{}"):
        context.clear()
        drafter = bench.drafter(heads, context, kind)
        assert isinstance(drafter, Measurable)
        proposed = []
        for _ in range(3):
            (cost,) = drafter.draft_costs().values()
            assert cost.step > 0.0 and cost.token > 0.0
            reply = TinyReply(context, drafter, PROMPT)
            proposed.append([[node.token for node in one.proposed] for one in reply.rounds])
        assert proposed[0] == proposed[1] == proposed[2] and any(proposed[0])
        context.listener = None


def test_seeded_replies_are_the_plain_ones(llama: Eagle3Bench) -> None:
    context = llama.context()
    sampling = SamplingParams(temperature=0.8, seed=4)
    plain = TinyReply(context, None, PROMPT, sampling=sampling)
    drafter = llama.drafter(llama.heads(set(plain.tokens))[0], context)
    reply = TinyReply(context, drafter, PROMPT, sampling=sampling)
    assert reply.tokens == plain.tokens and reply.accepted > 0


def test_what_it_follows_leaves_no_trace(bench: Eagle3Bench) -> None:
    """After edits, switches, rejections and plain replies it drafts as a fresh one does."""
    context = bench.context()
    first = TinyReply(context, None, PROMPT)
    heads, _ = bench.heads(set(first.tokens))
    used = bench.step_drafter(heads, context)
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
    assert drafter.start(argmax_round(text))
    assert drafter.peek() is not None
    row = np.zeros(300, np.float32)
    for token, chance in drafter.alternatives(12):
        row[token] = chance
    return row


def _fresh_row(bench: Eagle3Bench, heads: Path, text: Sequence[int]) -> NDArray[np.float32]:
    context = bench.context()
    drafter = bench.step_drafter(heads, context)
    context.feed(text[:-1])
    drafter.begin(text)
    return _first_row(drafter, text)


def test_long_prompts_are_followed_in_parts(llama: Eagle3Bench) -> None:
    """Same draft whether the prompt came at once, in parts, or over the limit of waiting rows."""
    options = ContextOptions(1024, 33, THREADS, layer_inputs=EAGLE3_LAYERS)
    text = np.random.default_rng(0).integers(5, 250, 700).tolist()
    rows = []
    heads, _ = llama.heads(range(0, 200, 2))
    for step in (512, 150, 7):
        context = Context(llama.model, options, AbortFlag())
        drafter = llama.step_drafter(heads, context)
        for start in range(0, len(text) - 1, step):
            context.feed(text[start : min(start + step, len(text) - 1)])
        drafter.begin(text)
        rows.append(_first_row(drafter, text))
        drafter.close()
        context.close()
    np.testing.assert_allclose(rows[1], rows[0], atol=1e-3)
    np.testing.assert_allclose(rows[2], rows[0], atol=1e-3)


def test_a_drafter_that_saw_a_gap_says_so_and_comes_back(llama: Eagle3Bench) -> None:
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
