"""How much of the context a prompt takes, asked beside replies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.data.errors import RequestError
from engine.data.events import Finished, Notice
from engine.data.folders import DataFolder
from engine.data.request import GenerateRequest, LoadRequest, Message, Role
from engine.data.rounds import RoundTrace
from engine.process.client import EngineClient
from tests.engine.runs import finished, raw, until, write_slow_tiny
from tests.tiny_gguf import write_tiny_gguf


@pytest.fixture
def client(tmp_path: Path) -> Iterator[EngineClient]:
    one = EngineClient(DataFolder(tmp_path / "data"))
    yield one
    one.close()


def chat(*texts: str) -> GenerateRequest:
    roles: tuple[Role, Role] = ("user", "assistant")
    messages = tuple(Message(roles[at % 2], text) for at, text in enumerate(texts))
    return GenerateRequest(messages, max_tokens=8, overflow="trim")


def test_a_count_is_what_the_reply_then_reads(client: EngineClient, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no model is loaded"):
        client.count(chat("hello"))
    client.load(LoadRequest(str(write_tiny_gguf(tmp_path / "tiny.gguf")), threads=1))
    first = chat("hello there")
    size = client.count(first, ("hello", ""))
    assert (size.limit, size.dropped, size.refused) == (256, 0, "")
    assert size.texts[0] > 0 and size.texts[1] == 0
    reply = finished(client.generate(first))
    assert reply.prompt_tokens == size.tokens
    second = chat("hello there", reply.text, "and then?")
    size = client.count(second)
    assert finished(client.generate(second)).prompt_tokens == size.tokens


def test_a_count_says_what_trimming_then_drops(client: EngineClient, tmp_path: Path) -> None:
    client.load(LoadRequest(str(write_tiny_gguf(tmp_path / "tiny.gguf")), threads=1))
    long = chat(*(f"message {number} " + "x" * 50 for number in range(7)))
    size = client.count(long)
    assert size.tokens > size.limit == 256 and 0 < size.dropped < 7 and not size.refused
    events = list(client.generate(long).events())
    told = next(event.message for event in events if isinstance(event, Notice))
    assert f"the {size.dropped} oldest messages were left out" in told
    assert "larger context" in client.count(replace(long, overflow="refuse")).refused
    alone = client.count(chat("x" * 600))
    assert alone.dropped == 0 and "larger context" in alone.refused


def test_a_count_is_answered_while_a_reply_is_written(client: EngineClient, tmp_path: Path) -> None:
    client.load(LoadRequest(str(write_slow_tiny(tmp_path / "slow.gguf")), threads=1))
    run = client.generate(raw("hello", max_tokens=200))
    until(run, RoundTrace)
    assert client.count(chat("hello")).tokens > 0
    assert not run.ended and client.pending == (run.id,)
    run.cancel()
    end = until(run, Finished)
    assert isinstance(end, Finished) and end.finish == "cancelled"


def test_counts_end_when_the_engine_does(client: EngineClient, tmp_path: Path) -> None:
    client.load(LoadRequest(str(write_tiny_gguf(tmp_path / "tiny.gguf")), threads=1))
    client.unload()
    with pytest.raises(RequestError):
        client.count(chat("hello"))
