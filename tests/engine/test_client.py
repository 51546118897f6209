"""The engine process through its client: loads, chats, cancels, crashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.data.errors import (
    BadOptionError,
    ContextLengthError,
    EngineError,
    IncompatiblePairError,
    ModelFileError,
    RequestError,
    UnknownModelError,
)
from engine.data.events import Finished, Notice, PromptProgress, Queued
from engine.data.folders import DataFolder
from engine.data.request import (
    DraftParams,
    GenerateRequest,
    LoadRequest,
    Message,
    Role,
    SamplingParams,
)
from engine.data.rounds import RoundTrace
from engine.process.client import EngineClient
from tests.engine.runs import USUAL_SAMPLING, WAIT, finished, raw, reply, until, write_slow_tiny
from tests.tiny_gguf import write_tiny_gguf


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
        (LoadRequest(str(tiny), context_length=2**31 - 1), RequestError),
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
    return write_slow_tiny(tmp_path_factory.mktemp("slow") / "slow.gguf")


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

    def __init__(self, client: EngineClient, drafting: DraftParams) -> None:
        self.client = client
        self.drafting = drafting
        self.messages: list[Message] = []
        self.last: Finished | None = None

    def say(
        self, text: str, max_tokens: int = 12, sampling: SamplingParams = USUAL_SAMPLING
    ) -> Finished:
        self.messages.append(Message("user", text))
        return self.answer(max_tokens, sampling)

    def answer(self, max_tokens: int = 12, sampling: SamplingParams = USUAL_SAMPLING) -> Finished:
        request = GenerateRequest(
            messages=tuple(self.messages),
            max_tokens=max_tokens,
            sampling=sampling,
            drafting=self.drafting,
        )
        self.last = reply(self.client, request)
        self.messages.append(Message("assistant", self.last.text))
        return self.last


@pytest.fixture
def chat(shared: EngineClient, starter_path: Path) -> Chat:
    drafter = "first(ngram,early-exit)"
    shared.load(LoadRequest(str(starter_path), drafter, context_length=1024, threads=1))
    return Chat(shared, DraftParams("always", draft_max=4))


@pytest.mark.model
def test_the_next_turn_reads_only_what_is_new(chat: Chat) -> None:
    chat.say("Name three colours.", max_tokens=20)
    for turn, temperature in enumerate((0.0, 1.5)):
        before = chat.last
        assert before is not None
        held = before.prompt_tokens + len(before.tokens)
        sampling = SamplingParams(temperature=temperature, seed=turn)
        after = chat.say("And one more?", sampling=sampling)
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
    fresh = Chat(chat.client, DraftParams("off"))
    fresh.messages = list(chat.messages[:-1])
    assert fresh.answer().text == edited.text


@pytest.mark.model
def test_a_history_too_long_is_refused_or_trimmed(shared: EngineClient, starter_path: Path) -> None:
    shared.load(LoadRequest(str(starter_path), "ngram", context_length=160, threads=1))
    words = "one two three four five six seven eight nine ten " * 2
    turn: tuple[Role, ...] = ("user", "assistant")
    roles = (*turn * 5, turn[0])
    messages = tuple(Message(role, f"{number} {words}") for number, role in enumerate(roles))
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
