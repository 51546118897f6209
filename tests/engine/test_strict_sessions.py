"""Chats of the starter under strict numerics: the same bytes with and without drafting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.data.events import Finished
from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from engine.data.request import (
    DraftParams,
    GenerateRequest,
    LoadRequest,
    Message,
    SamplingParams,
    Speculate,
)
from engine.data.rounds import RoundTrace
from engine.llama.abort import AbortFlag
from engine.llama.library import Library
from engine.serving.session import Session
from tests.engine.conftest import THREADS

pytestmark = pytest.mark.model

QUESTIONS = (
    "Repeat this twice: the quick brown fox jumps over the lazy dog.",
    "Now say it once more, word for word, and then count from one to five.",
    "Which words did you repeat?",
)
SAMPLINGS = (SamplingParams(), SamplingParams(temperature=0.8, top_k=40, seed=5))
CHAINS = ("ngram", "early-exit:skip=12+16", "first(ngram,early-exit:skip=12+16)")
TREES = ("recycle:tree=12", "union(ngram,early-exit:skip=12+16)")
USUAL = (TREES[1],)
"""The default run has these, the slow one all of them; the contract has every drafter."""
MODES: tuple[Speculate, ...] = ("always", "auto")
TOKENS, STOP_AT = 24, 3


@dataclass(frozen=True)
class Turn:
    """What a turn wrote. stopped: how many tokens there were when somebody pressed Stop."""

    text: bytes
    tokens: tuple[int, ...]
    stopped: int | None


class Chats:
    """One session after the other in one data folder, so that classes are found once."""

    def __init__(self, library: Library, folder: Path, starter: Path) -> None:
        self._session = Session(library, DataFolder(folder), AbortFlag())
        self._starter = starter
        self.drafted = 0

    def load(self, drafter: str | None) -> LoadedSummary:
        request = LoadRequest(str(self._starter), drafter, 512, THREADS, numerics="strict")
        self._session.unload()
        return self._session.load(request, lambda _label, _share: None)

    def chat(
        self, speculate: Speculate, sampling: SamplingParams, stops: list[int | None] | None = None
    ) -> list[Turn]:
        """From an empty cache. stops: where to stop a turn exactly; by default the second one,
        after STOP_AT tokens or a few more."""
        messages: list[Message] = []
        turns: list[Turn] = []
        for number, question in enumerate(QUESTIONS):
            messages.append(Message("user", question))
            stop_at = (STOP_AT if number == 1 else None) if stops is None else stops[number]
            request = GenerateRequest(
                messages=tuple(messages),
                max_tokens=TOKENS,
                sampling=sampling,
                drafting=DraftParams(speculate, coupling="seed"),
                reuse=number > 0,
            )
            turns.append(self._reply(request, stop_at))
            messages.append(Message("assistant", turns[-1].text.decode()))
        return turns

    def _reply(self, request: GenerateRequest, stop_at: int | None) -> Turn:
        rounds: list[RoundTrace] = []

        def is_stopped() -> bool:
            return stop_at is not None and sum(len(one.emitted) for one in rounds) >= stop_at

        for event in self._session.generate(request, is_stopped):
            if isinstance(event, RoundTrace):
                rounds.append(event)
                self.drafted += len(event.proposed)
            if isinstance(event, Finished):
                assert event.identical
                stopped = len(event.tokens) if event.finish == "cancelled" else None
                return Turn(event.text.encode(), event.tokens, stopped)
        raise AssertionError("a reply without an end")

    def close(self) -> None:
        self._session.unload()


@pytest.fixture(scope="module")
def chats(
    library: Library, starter_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chats]:
    chats = Chats(library, tmp_path_factory.mktemp("strict"), starter_path)
    yield chats
    chats.close()


@pytest.mark.parametrize(
    "drafter",
    [
        pytest.param(one, marks=() if one in USUAL else pytest.mark.slow)
        for one in (*CHAINS, *TREES)
    ],
)
def test_chats_are_the_same_with_and_without_drafting(chats: Chats, drafter: str) -> None:
    """Turns, a reply that is stopped, and what follows it."""
    loaded = chats.load(drafter)
    assert loaded.strict_width is not None and loaded.strict_width > 1
    stopped = 0
    for sampling in SAMPLINGS:
        for speculate in MODES:
            chats.drafted = 0
            drafted = chats.chat(speculate, sampling)
            assert chats.drafted > 0 or speculate == "auto"
            stops = [turn.stopped for turn in drafted]
            stopped += stops[1] is not None
            assert chats.chat("off", sampling, stops) == drafted
    assert stopped


def test_a_load_without_a_drafter_writes_the_same(chats: Chats) -> None:
    loaded = chats.load(CHAINS[0])
    drafted = [chats.chat("always", sampling) for sampling in SAMPLINGS]
    alone = chats.load(None)
    assert alone.strict_widths == loaded.strict_widths and alone.notices == loaded.notices
    for sampling, turns in zip(SAMPLINGS, drafted, strict=True):
        assert chats.chat("off", sampling, [turn.stopped for turn in turns]) == turns
