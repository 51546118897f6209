"""A reply is told, through the pipe, to end its thought and to answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.data.events import Finished
from engine.data.folders import DataFolder
from engine.data.request import UNLIMITED, GenerateRequest, LoadRequest, Message
from engine.data.rounds import EmittedToken, RoundTrace
from engine.process.client import EngineClient
from engine.process.run import Run
from tests.engine.test_thinking import LETTERS
from tests.thinking_template import THINKING, THINKING_MARKERS
from tests.tiny_gguf import CONTROL_TOKENS, write_tiny_gguf

ASKED = GenerateRequest((Message("user", "abc"),), max_tokens=200, thinking_budget=UNLIMITED)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineClient]:
    folder: Path = tmp_path_factory.mktemp("answer")
    path = write_tiny_gguf(
        folder / "thinker.gguf",
        tokens=LETTERS,
        control_tokens=(*CONTROL_TOKENS, *THINKING_MARKERS),
        chat_template=THINKING,
    )
    client = EngineClient(DataFolder(folder / "data"))
    client.load(LoadRequest(str(path), "ngram", 2048, threads=1))
    yield client
    client.close()


def written(run: Run) -> tuple[Finished, list[EmittedToken]]:
    tokens: list[EmittedToken] = []
    for event in run.events():
        if isinstance(event, RoundTrace):
            tokens += event.emitted
        if isinstance(event, Finished):
            return event, tokens
    raise AssertionError("a reply without an end")


def test_a_reply_that_is_told_ends_its_thought(client: EngineClient) -> None:
    _, before = written(client.generate(ASKED))
    assert not any(one.forced for one in before)
    run = client.generate(ASKED)
    run.answer_now()
    finished, tokens = written(run)
    assert sum(one.forced for one in tokens) >= 1
    assert finished.thought is not None and finished.thought.end < len(finished.tokens)


def test_the_next_reply_knows_nothing_of_it(client: EngineClient) -> None:
    run = client.generate(ASKED)
    run.answer_now()
    written(run)
    run.answer_now()  # it has ended
    _, tokens = written(client.generate(ASKED))
    assert not any(one.forced for one in tokens)


def test_one_that_waits_is_told_already(client: EngineClient) -> None:
    first, second = client.generate(ASKED), client.generate(ASKED)
    second.answer_now()
    _, tokens = written(first)
    assert not any(one.forced for one in tokens)
    _, tokens = written(second)
    assert tokens[0].forced
