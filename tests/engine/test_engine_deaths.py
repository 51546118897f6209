"""An engine process that dies, seen through its client."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import struct
from pathlib import Path

import pytest

from engine.data.errors import (
    EngineDiedError,
    EngineError,
    UnknownModelError,
)
from engine.data.request import LoadRequest
from engine.data.rounds import RoundTrace
from engine.process.client import EngineClient
from tests.engine.runs import WAIT, finished, raw, reply, until, write_slow_tiny
from tests.tiny_gguf import write_tiny_gguf


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf", layers=8)


@pytest.fixture(scope="module")
def slow_tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_slow_tiny(tmp_path_factory.mktemp("slow") / "slow.gguf")


def test_a_killed_engine_costs_the_reply_and_nothing_else(
    client: EngineClient, slow_tiny: Path
) -> None:
    client.load(LoadRequest(str(slow_tiny), "ngram", threads=1))
    run = client.generate(raw("abc", 3000))
    waiting = client.generate(raw("b"))
    seen = [until(run, RoundTrace) for _ in range(3)]
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    with pytest.raises(EngineDiedError, match="send the next message"):
        seen += [event for event in run.events() if isinstance(event, RoundTrace)]
    assert finished(waiting).finish == "length", "what waited goes on in the next engine"
    assert len(seen) >= 3 and run.next_event() is None
    run.cancel()
    assert client.loaded is not None
    assert reply(client, raw("abc", 5)).stats.emitted == 5


def test_a_killed_idle_engine_is_replaced(client: EngineClient, tiny: Path) -> None:
    client.load(LoadRequest(str(tiny), threads=1))
    before = client.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    for process in multiprocessing.active_children():
        if process.pid == before:
            process.join(WAIT)
    assert reply(client, raw("abc", 5)).stats.emitted > 0
    assert client.pid not in (None, before)


def test_a_model_that_is_gone_after_a_crash_is_named(client: EngineClient, tiny: Path) -> None:
    client.load(LoadRequest(str(tiny), threads=1))
    run = client.generate(raw("abc", 200))
    until(run, RoundTrace)
    tiny.unlink()
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    with pytest.raises(EngineDiedError):
        list(run.events())
    with pytest.raises(UnknownModelError, match=r"tiny\.gguf"):
        reply(client, raw("abc"))
    assert client.loaded is None


def test_a_file_that_aborts_llama_cpp_costs_the_load_alone(
    client: EngineClient, tiny: Path, tmp_path: Path
) -> None:
    """A root mean square of less than nothing fails an assertion."""
    fatal = write_tiny_gguf(tmp_path / "fatal.gguf")
    content = bytearray(fatal.read_bytes())
    key = b"layer_norm_rms_epsilon"
    value = content.index(key) + len(key) + 4  # behind its type
    content[value : value + 4] = struct.pack("<f", -1.0)
    fatal.write_bytes(content)
    good = LoadRequest(str(tiny), "ngram", threads=1)
    client.load(good)
    before = client.pid
    with pytest.raises(EngineDiedError, match=r"GGML_ASSERT.*comes back"):
        client.load(LoadRequest(str(fatal), threads=1))
    assert client.loaded is not None and client.loaded.request == good
    assert reply(client, raw("!", 3)).stats.emitted > 0
    assert client.pid != before


def test_damaged_files_never_take_the_interface_down(client: EngineClient, tmp_path: Path) -> None:
    """200 truncations and bit flips; the engine may die of one, the next load works."""
    good = write_tiny_gguf(tmp_path / "good.gguf", hidden=32, feed_forward=64, layers=1)
    data = good.read_bytes()
    generator = random.Random(11)
    damaged = tmp_path / "damaged.gguf"
    deaths = loads = refusals = 0
    for case in range(200):
        content = bytearray(data)
        if case % 4 == 0:
            del content[generator.randrange(len(content)) :]
        else:
            reach = len(content) if case % 4 == 1 else 12_000  # the header is the fragile part
            for _ in range(generator.randint(1, 8)):
                content[generator.randrange(reach)] ^= 1 << generator.randrange(8)
        damaged.write_bytes(content)
        try:
            client.load(LoadRequest(str(damaged), context_length=64, threads=1))
            reply(client, raw("hello", 2))
            loads += 1
        except EngineDiedError:
            deaths += 1
        except EngineError:
            refusals += 1
        client.unload()
    assert deaths + loads + refusals == 200
    assert refusals > 20 and loads > 20, "the damage should be of both kinds"
    client.load(LoadRequest(str(good), threads=1))
    assert reply(client, raw("hello", 2)).stats.emitted > 0
