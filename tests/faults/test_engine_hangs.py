"""An engine process that hangs, is stopped, killed, or does not answer Stop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.children.pulse import LONGEST_TICK, Pulse
from engine.data.errors import EngineDiedError
from engine.data.events import Finished, Queued
from engine.data.request import LoadRequest
from engine.data.rounds import RoundTrace
from engine.process.client import EngineClient
from engine.process.engine_process import STOP_SECONDS
from engine.process.overseer import Limits, Overseer
from tests.engine.runs import finished, raw, until, write_slow_tiny
from tests.faults.engine_faults import (
    KNOWN_ENDS,
    MOMENTS,
    Aftermath,
    InBackground,
    end_of,
    engine_process,
    kill,
    new_client,
    strike,
    suspend,
)

LONGEST_HANG = 10.0
LONGEST_START = 30.0
"""A start that hangs ends with another engine's start, which a busy machine draws out."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_slow_tiny(tmp_path_factory.mktemp("slow") / "slow.gguf")


@pytest.fixture
def client(tmp_path: Path, model: Path) -> Iterator[EngineClient]:
    client = new_client(tmp_path / "data")
    client.load(LoadRequest(str(model), "ngram", threads=1))
    yield client
    client.close()


def test_stop_ends_a_reply_whose_engine_does_not_answer(client: EngineClient) -> None:
    run = client.generate(raw("abc", 3000))
    waiting = client.generate(raw("b", 6))
    told = [until(run, RoundTrace) for _ in range(3)]
    suspended = engine_process()
    suspend(suspended)
    run.cancel()
    rest = list(run.events())
    end = rest[-1]
    assert isinstance(end, Finished) and end.finish == "cancelled"
    rounds = [one for one in (*told, *rest) if isinstance(one, RoundTrace)]
    assert list(end.tokens) == [one.token for trace in rounds for one in trace.emitted]
    assert end.text == "".join(one.text for trace in rounds for one in trace.emitted)
    assert end.stats.rounds == len(rounds) and end.prompt_tokens > 0
    assert waiting.next_event(60.0) == Queued(1)
    assert finished(waiting).finish == "length", "the queue goes on in the next engine"
    assert not suspended.is_running() and client.pid not in (None, suspended.pid)


@pytest.mark.slow
def test_an_engine_that_falls_silent_is_replaced_without_being_asked(client: EngineClient) -> None:
    run = client.generate(raw("abc", 3000))
    until(run, RoundTrace)
    suspend(engine_process())
    with pytest.raises(EngineDiedError, match=r"did not answer.*reply so far is kept"):
        list(run.events())
    assert finished(client.generate(raw("abc", 5))).finish == "length"


def test_a_stopped_idle_engine_neither_loses_the_next_message_nor_holds_up_stop(
    client: EngineClient,
) -> None:
    suspend(engine_process())
    given_up, kept = client.generate(raw("x" * 200_000, 5)), client.generate(raw("abc", 5))
    given_up.cancel()
    assert end_of(given_up)[0] == "cancelled"
    assert finished(kept).finish == "length"


@pytest.mark.parametrize(
    "moment",
    [
        "load",
        pytest.param("start", marks=pytest.mark.slow),
        pytest.param("calibration", marks=pytest.mark.slow),
    ],
)
def test_a_hanging_command_ends_and_the_next_message_works(
    client: EngineClient, model: Path, moment: str
) -> None:
    came = strike(client, moment, suspend, model)
    assert came.ended in ("done", "EngineDiedError") and came.ended_seconds < LONGEST_START


def test_a_load_is_stopped_and_what_was_loaded_stays(client: EngineClient, model: Path) -> None:
    pid, before = client.pid, client.loaded
    assert before is not None
    request = LoadRequest(str(model), "ngram", threads=1)
    command = InBackground(lambda tell: client.calibrate(request, tell))
    command.begun.wait(60.0)
    client.stop_loading()
    assert command.wait() == "StoppedError"
    assert client.pid == pid, "it answered by itself"
    assert client.loaded is not None and client.loaded.request == before.request
    assert finished(client.generate(raw("abc", 5))).finish == "length"


def test_a_load_that_waits_behind_a_reply_is_stopped_at_once(
    client: EngineClient, model: Path
) -> None:
    run = client.generate(raw("abc", 3000))
    until(run, RoundTrace)
    waiting = InBackground(lambda tell: client.load(LoadRequest(str(model), threads=1), tell))
    while len(client.pending) < 2:
        assert not waiting.begun.wait(0.01)
    client.stop_loading()
    assert waiting.wait() == "StoppedError"
    run.cancel()
    assert finished(run).finish == "cancelled"


def test_closing_ends_a_stopped_engine(client: EngineClient) -> None:
    process = engine_process()
    suspend(process)
    client.close()
    assert not process.is_running()


def test_closing_does_not_wait_for_an_engine_that_only_brings_the_model_back(
    client: EngineClient,
) -> None:
    run = client.generate(raw("abc", 3000))
    until(run, RoundTrace)
    suspend(engine_process())
    run.cancel()
    assert end_of(run)[0] == "cancelled"
    suspend(engine_process())
    begun = time.monotonic()
    client.close()
    assert time.monotonic() - begun < STOP_SECONDS


# The clock of silence


class ScriptedWork:
    def __init__(self) -> None:
        self.works = False

    def __call__(self) -> bool:
        return self.works


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def overseer(limits: Limits) -> tuple[Overseer, Clock, ScriptedWork]:
    clock, work = Clock(), ScriptedWork()
    watched = Overseer(Pulse(work, clock), limits, limits.start)
    watched.heard()
    watched.is_ready()
    watched.verdict()
    return watched, clock, work


def seconds_until_verdict(watched: Overseer, clock: Clock, step: float = 0.25) -> float:
    start = clock.now
    while not watched.verdict():
        clock.now += step
        assert clock.now < start + 1000.0
    return clock.now - start


def test_one_that_works_is_given_more_time_than_one_that_does_not() -> None:
    limits = Limits()
    watched, clock, work = overseer(limits)
    assert seconds_until_verdict(watched, clock) == pytest.approx(limits.idle, abs=0.5)
    watched, clock, work = overseer(limits)
    work.works = True
    assert seconds_until_verdict(watched, clock) == pytest.approx(limits.deaf, abs=0.5)


def test_time_in_which_this_program_slept_is_not_silence() -> None:
    watched, clock, _ = overseer(Limits())
    clock.now += 3600.0
    assert watched.verdict() == "" and watched.verdict() == ""
    assert seconds_until_verdict(watched, clock) >= Limits().idle - LONGEST_TICK - 0.5


def test_stop_counts_from_the_first_time_it_was_pressed() -> None:
    limits = Limits()
    watched, clock, _ = overseer(limits)
    watched.expect_end(7)
    for _ in range(int(4 * limits.stop) + 1):
        clock.now += 0.25
        watched.heard()
        watched.expect_end(7)
        verdict = watched.verdict()
    assert "did not stop" in verdict
    watched.answered(7)
    watched.heard()
    assert watched.verdict() == ""


def test_one_that_shows_life_but_is_never_ready_is_ended() -> None:
    clock = Clock()
    watched = Overseer(Pulse(ScriptedWork(), clock), Limits(), 8.0)
    while not (verdict := watched.verdict()):
        watched.heard()
        clock.now += 0.5
    assert "was not ready" in verdict and clock.now == pytest.approx(Limits().ready, abs=1.0)


# The campaign


@pytest.mark.slow
def test_sixty_kills_and_stops(tmp_path: Path, model: Path) -> None:
    """Every moment, killed and suspended, with and without Stop, at the limits that users have."""
    client = new_client(tmp_path / "data", Limits())
    client.load(LoadRequest(str(model), "ngram", threads=1))
    came: list[Aftermath] = []
    for turn in range(60):
        fault, stop = (kill, suspend)[turn // 6 % 2], turn // 12 % 2 == 1
        came.append(strike(client, MOMENTS[turn % 6], fault, model, stop=stop))
    client.close()
    print(f"\n{len(came)} faults, longest end {max(one.ended_seconds for one in came):.1f} s, ")
    for (moment, name), count in sorted(Counter((one.moment, one.fault) for one in came).items()):
        same = [one for one in came if (one.moment, one.fault) == (moment, name)]
        ends = ", ".join(sorted({one.ended for one in same}))
        ended, next_ = (
            max(getattr(one, figure) for one in same)
            for figure in ("ended_seconds", "next_seconds")
        )
        print(
            f"{moment:12} {name:14} {count:2}x  {ends:30} ended {ended:4.1f} s, next {next_:4.1f}"
        )
    assert {one.ended for one in came} <= KNOWN_ENDS
    assert max(one.lost_tokens for one in came) == 0
    for one in came:
        assert one.ended_seconds < (LONGEST_START if one.moment == "start" else LONGEST_HANG), one
    assert not [
        one for one in psutil.Process().children() if "spawn_main" in " ".join(one.cmdline())
    ]
