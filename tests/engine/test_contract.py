"""What every drafter owes, each of them held to it: the text stays the target's.

Strict numerics, so texts are compared byte for byte and rows of logits bit for bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import psutil
import pytest

from engine.data.request import SamplingParams
from engine.llama.library import Library
from engine.llama.model import Model
from engine.llama.repeat import held_state
from engine.maths.sampling import Sampler
from tests.engine.contract_worlds import (
    DRAFTERS,
    LEARNING,
    World,
    mtp_world,
    starter_world,
    tiny_world,
)
from tests.engine.g_test import p_value
from tests.engine.tiny_replies import GREEDY, TinyReply

SEEDED = SamplingParams(temperature=0.8, seed=11)
LAW = SamplingParams(temperature=1.0, top_k=5)
SIGNIFICANCE = 0.001
CYCLES = 50
LEAK = 5_000_000
OWN_MEMORY = ("model", "tli", "medusa", "eagle", "eagle3", "mtp", "best", "union")
"""Drafters that load weights or open contexts, alone and as members."""
ON_THE_STARTER = {"early-exit", "medusa tree", "tli", "union"}
"""The default run has these on a real model too, the slow one all of them."""
SELDOM_RIGHT = {"ngram", "tli"}
"""On the text of a random model, which does not repeat itself."""


@pytest.fixture(scope="module")
def worlds(
    library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, World]]:
    """Small targets: one with an MTP layer, one for all other drafters."""
    folder = tmp_path_factory.mktemp("worlds")
    with tiny_world(library, folder) as tiny, mtp_world(library, folder) as mtp:
        yield {name: mtp if name == "mtp" else tiny for name in DRAFTERS}


@pytest.fixture(scope="module")
def starter_of_all(
    library: Library, starter: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with starter_world(library, starter, tmp_path_factory.mktemp("starter")) as world:
        yield world


def assert_plain_text(world: World, name: str, count: int) -> set[bool]:
    """What came of the proposed tokens: True for accepted, False for rejected."""
    assert world.width >= 4
    kept: set[bool] = set()
    with world.opened(name) as opened:
        for sampling in (GREEDY, SEEDED):
            for _ in range(2):  # the second one reuses the caches
                reply = opened.reply(world.prompt, count, sampling)
                assert reply.tokens == world.plain(world.prompt, count, sampling)
                assert reply.notices == []
                kept |= {node.accepted for trace in reply.rounds for node in trace.proposed}
    return kept


@pytest.mark.parametrize("name", DRAFTERS)
def test_greedy_and_seeded_texts_are_the_plain_ones(worlds: dict[str, World], name: str) -> None:
    kept = assert_plain_text(worlds[name], name, 24)
    assert kept == ({False} if name in SELDOM_RIGHT else {True, False})


@pytest.mark.model
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ON_THE_STARTER else pytest.mark.slow)
        for name in DRAFTERS
        if name != "mtp"
    ],
)
def test_texts_of_the_starter_are_the_plain_ones(starter_of_all: World, name: str) -> None:
    assert assert_plain_text(starter_of_all, name, 8)


def proposals(reply: TinyReply) -> list[list[tuple[int, int]]]:
    return [[(node.token, node.parent) for node in trace.proposed] for trace in reply.rounds]


@pytest.mark.parametrize("name", DRAFTERS)
def test_rejections_edits_and_other_chats_leave_nothing(
    worlds: dict[str, World], name: str
) -> None:
    """Neither in the target's cache nor in the drafter's."""
    world = worlds[name]
    long = [*world.prompt, *world.plain(world.prompt, 24, GREEDY), 44, 50]
    chats = [long, [*long[:20], 3, 4, 5], [9, 8, 7, 9, 8], long[:-1], [long[0] + 1, *long[1:]]]
    with world.opened(name) as opened, world.opened_plain() as plain:
        for chat in chats:
            reply = opened.reply(chat, 12, GREEDY)
            assert reply.tokens == plain.reply(chat, 12, GREEDY).tokens and reply.notices == []
            assert held_state(opened.context) == held_state(plain.context)
    if name not in LEARNING:
        with world.opened(name) as fresh:
            assert proposals(fresh.reply(chats[-1], 12, GREEDY)) == proposals(reply)


def assert_plain_chat(world: World, name: str, turns: int) -> int:
    """Turns that reach their end, turns that are stopped, and going on after both: the tokens, and
    every bit of the cache. Returns how many drafts had two tokens or more."""
    long_drafts = 0
    with world.opened(name) as opened, world.opened_plain() as plain:
        for sampling in (GREEDY, SEEDED):
            chat = list(world.prompt)
            for turn in range(turns):
                stop_at = 5 + turn if turn % 2 else 0
                reply = opened.reply(chat, 14, sampling, stop_at=stop_at)
                expected = plain.reply(
                    chat, 14, sampling, stop_at=len(reply.tokens) if stop_at else 0
                )
                assert reply.tokens == expected.tokens and reply.reused == expected.reused
                assert held_state(opened.context) == held_state(plain.context)
                long_drafts += sum(
                    max((node.depth for node in trace.proposed), default=0) > 1
                    for trace in reply.rounds
                )
                chat += [*reply.tokens, *world.prompt[turn : turn + 3]]
    return long_drafts


@pytest.mark.parametrize("name", DRAFTERS)
def test_chats_and_stops_are_the_plain_ones_bit_for_bit(
    worlds: dict[str, World], name: str
) -> None:
    assert assert_plain_chat(worlds[name], name, 4) or name in SELDOM_RIGHT


@pytest.mark.model
@pytest.mark.parametrize("name", [one for one in DRAFTERS if one != "mtp"])
def test_chats_of_the_starter_are_the_plain_ones_bit_for_bit(
    starter_of_all: World, name: str
) -> None:
    assert assert_plain_chat(starter_of_all, name, 2) or name in SELDOM_RIGHT


class Law:
    """Of the first two tokens after the prompt, by the target alone."""

    def __init__(self, world: World) -> None:
        context, sampler = world.plain_context, Sampler(LAW)
        self.pairs: dict[tuple[int, int], float] = {}

        def after(*tokens: int) -> list[tuple[int, float]]:
            context.clear()
            row = context.extend_to_last([*world.prompt, *tokens])
            law = sampler.distribution(row, [*world.prompt, *tokens])
            return list(zip(law.ids.tolist(), law.probabilities.tolist(), strict=True))

        for first, chance in after():
            for second, then in after(first):
                self.pairs[first, second] = chance * then


def assert_law(world: World, name: str, draws: int) -> None:
    counts: Counter[tuple[int, int]] = Counter()
    with world.opened(name) as opened:
        for seed in range(draws):
            sampling = SamplingParams(temperature=LAW.temperature, top_k=LAW.top_k, seed=seed)
            first, second, *_ = opened.reply(world.prompt, 3, sampling, coupling="best").tokens
            counts[first, second] += 1
    assert p_value(counts, Law(world).pairs, draws) > SIGNIFICANCE


@pytest.mark.parametrize("name", DRAFTERS)
def test_two_sampled_tokens_follow_the_targets_law(worlds: dict[str, World], name: str) -> None:
    """120 draws: enough to see a law that is badly wrong (total variation of 0.3 or more)."""
    assert_law(worlds[name], name, 120)


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAFTERS)
def test_two_sampled_tokens_follow_the_law_closely(worlds: dict[str, World], name: str) -> None:
    """8,000 draws: detects a total variation of 0.04."""
    assert_law(worlds[name], name, 8_000)


@pytest.mark.parametrize("name", OWN_MEMORY)
def test_closing_gives_memory_back(worlds: dict[str, World], name: str) -> None:
    """Target, context and drafters are loaded and closed together, every time."""
    world, process = worlds[name], psutil.Process()
    sizes = []
    for cycle in range(CYCLES):
        with world.reopened(name) as opened:
            if cycle % 10 == 0:
                reply = opened.reply(world.prompt, 6, GREEDY)
                assert reply.tokens == world.plain(world.prompt, 6, GREEDY)
            assert opened.drafter is not None
            opened.drafter.close()  # twice is safe
        sizes.append(process.memory_info().rss)
    assert sizes[-1] - sizes[4] < LEAK
