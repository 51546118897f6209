"""The engine process through its client: loads, chats, cancels, crashes."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import (
    BadOptionError,
    ContextLengthError,
    EngineDiedError,
    EngineError,
    IncompatiblePairError,
    ModelFileError,
    RequestError,
    UnknownModelError,
)
from engine.events import Finished, Notice, PromptProgress, Queued, RoundTrace, RunEvent
from engine.folders import DataFolder
from engine.process.client import EngineClient
from engine.process.run import Run
from engine.request import DraftParams, GenerateRequest, LoadRequest, Message, SamplingParams
from tests.tiny_gguf import write_tiny_gguf

WAIT = 60.0
"""Seconds until a missing event is a failure."""


def finished(run: Run) -> Finished:
    return next(event for event in run.events() if isinstance(event, Finished))


def reply(client: EngineClient, request: GenerateRequest) -> Finished:
    return finished(client.generate(request))


def raw(text: str, max_tokens: int = 8, **changes: object) -> GenerateRequest:
    return GenerateRequest(raw_prompt=text, max_tokens=max_tokens, **changes)  # type: ignore[arg-type]


def until(run: Run, kind: type[RunEvent]) -> RunEvent:
    """Events are taken until one of this kind comes."""
    while True:
        event = run.next_event(timeout=WAIT)
        assert event is not None, f"the run ended without {kind.__name__}"
        if isinstance(event, kind):
            return event


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineClient]:
    """One engine process for the tests that leave it in order."""
    client = EngineClient(DataFolder(tmp_path_factory.mktemp("data")))
    yield client
    client.close()


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf", layers=8)


# Loading


def test_a_load_reports_progress_and_what_is_loaded(shared: EngineClient, tiny: Path) -> None:
    labels: set[str] = set()
    request = LoadRequest(str(tiny), "first(ngram,early-exit:skip=3)", threads=1)
    loaded = shared.load(request, lambda progress: labels.add(progress.label))
    assert loaded == shared.loaded and loaded.request == request
    assert loaded.target.path == str(tiny) and loaded.target.context_length == 256
    assert [drafter.name for drafter in loaded.drafters] == ["first(ngram,early-exit:skip=3)"]
    assert loaded.has_chat_template and loaded.strict_width is None
    assert any(label.startswith("reading") for label in labels)


def test_what_cannot_be_loaded_leaves_what_was_loaded(
    shared: EngineClient, tiny: Path, tmp_path: Path
) -> None:
    good = LoadRequest(str(tiny), "ngram", threads=1)
    shared.load(good)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny.read_bytes()[:30_000])
    foreign = write_tiny_gguf(
        tmp_path / "foreign.gguf", tokens=[f"word{i}" for i in range(280)], control_tokens=()
    )
    attempts: list[tuple[LoadRequest, type[EngineError]]] = [
        (LoadRequest("no-such-model"), UnknownModelError),
        (LoadRequest(str(tmp_path / "none.gguf")), UnknownModelError),
        (LoadRequest(str(broken)), ModelFileError),
        (LoadRequest(str(tiny), f"model:{broken}"), ModelFileError),
        (LoadRequest(str(tiny), f"model:{foreign}"), IncompatiblePairError),
        (LoadRequest(str(tiny), "early-exit:skip=99"), BadOptionError),
        (LoadRequest(str(tiny), "nonsense"), BadOptionError),
        (LoadRequest(str(tiny), context_length=10**12), RequestError),
    ]
    for request, kind in attempts:
        with pytest.raises(kind):
            shared.load(request)
        assert shared.loaded is not None and shared.loaded.request == good
    assert reply(shared, raw("hello")).stats.emitted > 0


def test_a_replaced_file_is_read_again(shared: EngineClient, tiny: Path, tmp_path: Path) -> None:
    request = LoadRequest(str(tiny), threads=1)
    before = shared.load(request)
    assert shared.load(request) == before
    write_tiny_gguf(tmp_path / "other.gguf", layers=4).replace(tiny)
    assert shared.load(request).target.bytes < before.target.bytes


def test_unloading_and_loading_again(shared: EngineClient, tiny: Path) -> None:
    shared.load(LoadRequest(str(tiny), threads=1))
    shared.unload()
    assert shared.loaded is None
    with pytest.raises(BadOptionError, match="no model is loaded"):
        reply(shared, raw("hello"))
    shared.load(LoadRequest(str(tiny), threads=1))
    assert reply(shared, raw("hello")).stats.emitted > 0


def test_strict_numerics_tell_their_width(shared: EngineClient, tiny: Path) -> None:
    loaded = shared.load(LoadRequest(str(tiny), "ngram", threads=1, numerics="strict"))
    assert loaded.strict_width is not None and 1 <= loaded.strict_width <= 16
    always = DraftParams("always", 12)
    run = shared.generate(raw("the the the the the the", 40, drafting=always))
    rounds = [event for event in run.events() if isinstance(event, RoundTrace)]
    assert max(1 + len(trace.proposed) for trace in rounds) <= loaded.strict_width


def test_closing_twice_and_using_it_afterwards(client: EngineClient, tiny: Path) -> None:
    client.close()
    client.load(LoadRequest(str(tiny), threads=1))
    client.close()
    client.close()
    assert client.pid is None
    assert reply(client, raw("hello")).stats.emitted > 0


# Queue and cancel


def long_request() -> GenerateRequest:
    """Far longer than the tests that stop it take; the seed makes an early end unlikely."""
    return raw("hello", 240, sampling=SamplingParams(temperature=1.0, seed=3))


@pytest.fixture(scope="module")
def slow_tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Passes of some milliseconds, no token that ends a reply."""
    return write_tiny_gguf(
        tmp_path_factory.mktemp("slow") / "slow.gguf",
        layers=8,
        hidden=256,
        heads=4,
        kv_heads=4,
        feed_forward=1024,
        context=4096,
        control_tokens=(),
        chat_template=None,
    )


def test_requests_wait_their_turn_and_are_told_their_place(
    shared: EngineClient, slow_tiny: Path
) -> None:
    shared.load(LoadRequest(str(slow_tiny), threads=1))
    first = shared.generate(raw("a", 2000))
    until(first, RoundTrace)
    second, third = shared.generate(raw("b")), shared.generate(raw("c"))
    assert second.next_event(WAIT) == Queued(1) and third.next_event(WAIT) == Queued(2)
    first.cancel()
    assert finished(first).finish == "cancelled"
    assert finished(second).finish == "length"
    assert third.next_event(WAIT) == Queued(1)
    assert finished(third).finish == "length"


def test_a_run_cancelled_in_the_queue_ends_at_once_and_leaves_the_cache(
    shared: EngineClient, slow_tiny: Path
) -> None:
    shared.load(LoadRequest(str(slow_tiny), threads=1))
    first = shared.generate(raw("a", 2000))
    until(first, RoundTrace)
    second, third = shared.generate(raw("b", 2000)), shared.generate(raw("a", 4))
    second.cancel()
    ended = finished(second)
    assert ended.finish == "cancelled" and ended.tokens == ()
    assert not first.ended, "it ended although the first still ran"
    assert [third.next_event(WAIT), third.next_event(WAIT)] == [Queued(2), Queued(1)]
    first.cancel()
    finished(first)
    prompt = finished(third)
    assert prompt.reused_prompt_tokens == prompt.prompt_tokens - 1


def test_cancelling_inside_the_rounds_keeps_what_was_emitted(
    shared: EngineClient, slow_tiny: Path
) -> None:
    shared.load(LoadRequest(str(slow_tiny), "ngram", threads=1))
    run = shared.generate(raw("abc abc abc abc", 3000, drafting=DraftParams("always", 8)))
    rounds = [until(run, RoundTrace) for _ in range(3)]
    run.cancel()
    rest = list(run.events())
    end = rest[-1]
    assert isinstance(end, Finished) and end.finish == "cancelled"
    rounds += [event for event in rest if isinstance(event, RoundTrace)]
    emitted = [e.token for t in rounds if isinstance(t, RoundTrace) for e in t.emitted]
    assert list(end.tokens) == emitted
    assert end.stats.emitted == len(emitted) and end.stats.rounds == len(rounds)


def test_cancelling_inside_a_long_prefill(shared: EngineClient, slow_tiny: Path) -> None:
    shared.load(LoadRequest(str(slow_tiny), "ngram", context_length=4096, threads=1))
    run = shared.generate(raw("x" * 4000))
    progress = until(run, PromptProgress)
    assert isinstance(progress, PromptProgress) and progress.done == 0
    run.cancel()
    rest = list(run.events())
    end = rest[-1]
    assert isinstance(end, Finished) and end.finish == "cancelled" and end.tokens == ()
    done = [event.done for event in rest if isinstance(event, PromptProgress)]
    assert max(done, default=0) < 3999, "the whole prompt was read before the stop"
    assert finished(shared.generate(raw("abc", 4))).finish == "length"


# A context of 64


@pytest.mark.model
@pytest.mark.parametrize("drafter", [None, "ngram", "early-exit", "first(ngram,early-exit)"])
def test_a_full_context_ends_the_reply(
    shared: EngineClient, starter_path: Path, drafter: str | None
) -> None:
    loaded = shared.load(LoadRequest(str(starter_path), drafter, context_length=64, threads=1))
    assert loaded.target.context_length == 64
    end = reply(shared, raw("Hello " * 56, 200, drafting=DraftParams("always", 32)))
    assert end.finish == "context"
    assert end.prompt_tokens + len(end.tokens) == 65
    again = reply(shared, raw("Hello " * 56, 200, drafting=DraftParams("always", 32)))
    assert again.tokens == end.tokens
    with pytest.raises(ContextLengthError, match=r"\d+ tokens, the context 64"):
        reply(shared, raw("Hello " * 80))


# Turns of a chat


class Chat:
    """A chat as the page keeps it: messages and the replies' texts."""

    def __init__(self, client: EngineClient, **drafting: object) -> None:
        self.client = client
        self.drafting = DraftParams(**drafting)  # type: ignore[arg-type]
        self.messages: list[Message] = []
        self.last: Finished | None = None

    def say(self, text: str, max_tokens: int = 12, **sampling: object) -> Finished:
        self.messages.append(Message("user", text))
        return self.answer(max_tokens, **sampling)

    def answer(self, max_tokens: int = 12, **sampling: object) -> Finished:
        request = GenerateRequest(
            messages=tuple(self.messages),
            max_tokens=max_tokens,
            sampling=SamplingParams(**sampling),  # type: ignore[arg-type]
            drafting=self.drafting,
        )
        self.last = reply(self.client, request)
        self.messages.append(Message("assistant", self.last.text))
        return self.last


@pytest.fixture
def chat(shared: EngineClient, starter_path: Path) -> Chat:
    drafter = "first(ngram,early-exit)"
    shared.load(LoadRequest(str(starter_path), drafter, context_length=1024, threads=1))
    return Chat(shared, speculate="always", draft_max=4)


@pytest.mark.model
def test_the_next_turn_reads_only_what_is_new(chat: Chat) -> None:
    chat.say("Name three colours.", max_tokens=20)
    for turn, temperature in enumerate((0.0, 1.5)):
        before = chat.last
        assert before is not None
        held = before.prompt_tokens + len(before.tokens)
        after = chat.say("And one more?", temperature=temperature, seed=turn)
        assert after.reused_prompt_tokens == held - 1
        assert after.prompt_tokens - held < 30


@pytest.mark.model
def test_nothing_is_kept_past_the_end_of_the_turn(chat: Chat) -> None:
    end = chat.say("Answer with the one word yes.", max_tokens=60)
    assert end.finish == "eos"
    after = chat.say("Again.")
    assert after.reused_prompt_tokens == end.prompt_tokens + len(end.tokens) - 1


@pytest.mark.model
def test_regenerating_and_editing_reuse_the_common_part(chat: Chat) -> None:
    first = chat.say("Name three colours.")
    chat.messages.pop()
    again = chat.answer()
    assert again.reused_prompt_tokens == again.prompt_tokens - 1
    assert again.text == first.text
    chat.say("And one more?")
    chat.messages[:] = chat.messages[:2]
    edited = chat.say("And two animals?")
    held = first.prompt_tokens + len(first.tokens)
    assert held - 1 <= edited.reused_prompt_tokens < edited.prompt_tokens
    fresh = Chat(chat.client, speculate="off")
    fresh.messages = list(chat.messages[:-1])
    assert fresh.answer().text == edited.text


@pytest.mark.model
def test_a_history_too_long_is_refused_or_trimmed(shared: EngineClient, starter_path: Path) -> None:
    shared.load(LoadRequest(str(starter_path), "ngram", context_length=160, threads=1))
    words = "one two three four five six seven eight nine ten " * 2
    messages = tuple(
        Message(role, f"{number} {words}")  # type: ignore[arg-type]
        for number, role in enumerate(["user", "assistant"] * 5 + ["user"])
    )
    with pytest.raises(ContextLengthError, match="the context 160"):
        reply(shared, GenerateRequest(messages=messages, max_tokens=8))
    run = shared.generate(GenerateRequest(messages=messages, max_tokens=8, overflow="trim"))
    events = list(run.events())
    notices = [event.message for event in events if isinstance(event, Notice)]
    assert len(notices) == 1 and "oldest messages were left out" in notices[0]
    end = events[-1]
    assert isinstance(end, Finished) and end.prompt_tokens <= 160 - 8 and end.stats.emitted > 0


@pytest.mark.model
def test_half_a_surrogate_in_a_message_is_no_crash(chat: Chat) -> None:
    pid = chat.client.pid
    assert chat.say("bad \ud83d character", max_tokens=4).stats.emitted > 0
    assert chat.say("and again", max_tokens=4).stats.emitted > 0
    assert chat.client.pid == pid


# An engine that dies


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
    with pytest.raises(EngineDiedError):
        finished(waiting)
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
    """A vocabulary with the same token twice fails an assertion."""
    fatal = write_tiny_gguf(
        tmp_path / "fatal.gguf", tokens=[*(chr(c) for c in range(33, 127)), "the", "the"]
    )
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
