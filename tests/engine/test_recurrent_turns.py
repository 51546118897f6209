"""Turns of a chat with a recurrent target whose template drops thoughts: what is read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from engine.data.events import Finished
from engine.data.folders import DataFolder
from engine.data.request import (
    DraftParams,
    GenerateRequest,
    LoadRequest,
    Message,
    Numerics,
    SamplingParams,
)
from engine.llama.abort import AbortFlag
from engine.llama.library import Library
from engine.llama.native_context import PREFILL_CHUNK
from engine.serving.session import Session
from tests.engine.conftest import THREADS
from tests.odd_gguf import write_hybrid
from tests.thinking_template import THINKING

DROPS = THINKING.replace("preserve_thinking", "false")
"""Nothing that is said makes it keep thoughts."""
LONG = "the old lighthouse keeper and the sea, " * 40
REPLY = 60
TURNS = 3


@pytest.fixture
def target(
    library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Session, str]]:
    folder = tmp_path_factory.mktemp("turns")
    path = write_hybrid(folder / "target.gguf", DROPS)
    session = Session(library, DataFolder(folder / "data"), AbortFlag())
    yield session, str(path)
    session.unload()


def load(target: tuple[Session, str], numerics: Numerics, drafter: str = "ngram") -> Session:
    session, path = target
    request = LoadRequest(path, drafter.format(path), 4096, THREADS, numerics=numerics)
    session.load(request, lambda _label, _share: None)
    return session


def answered(session: Session, request: GenerateRequest) -> Finished:
    finished = list(session.generate(request, lambda: False))[-1]
    assert isinstance(finished, Finished)
    return finished


def chat(session: Session, first: str, reuse: bool) -> list[Finished]:
    """Every reply goes into the history with a thought, as the page sends it."""
    request = GenerateRequest(
        messages=(Message("user", first),),
        max_tokens=REPLY,
        sampling=SamplingParams(temperature=0.8, seed=5),
        drafting=DraftParams("always", 4, coupling="seed"),
        reuse=reuse,
    )
    replies = []
    for turn in range(TURNS):
        replies.append(answered(session, request))
        said = (Message("assistant", f"so {turn}", "I think"), Message("user", "and then? " * 12))
        request = replace(request, messages=(*request.messages, *said))
    return replies


def read_again(replies: Sequence[Finished]) -> list[int]:
    """Tokens of a turn's prompt that are read once more in the next turn."""
    return [
        before.prompt_tokens - 1 - after.reused_prompt_tokens for before, after in pairwise(replies)
    ]


def test_little_of_the_turns_before_is_read_again(target: tuple[Session, str]) -> None:
    replies = chat(load(target, "fast"), LONG, reuse=True)
    assert replies[0].prompt_tokens > 1000
    assert all(one.reused_prompt_tokens > 0 for one in replies[1:])
    assert max(read_again(replies)) <= 32


def test_strict_text_is_that_of_an_empty_cache(target: tuple[Session, str]) -> None:
    session = load(target, "strict")
    replies = chat(session, LONG, reuse=True)
    assert [one.reused_prompt_tokens % PREFILL_CHUNK for one in replies] == [0] * TURNS
    assert all(one.reused_prompt_tokens > 0 for one in replies[1:])
    assert max(read_again(replies)) < PREFILL_CHUNK + 32
    anew = chat(session, LONG, reuse=False)
    assert [one.tokens for one in replies] == [one.tokens for one in anew]
    assert all(one.reused_prompt_tokens == 0 for one in anew)
