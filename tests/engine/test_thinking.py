"""Replies of a tiny target that thinks, from a session: the thought apart, the text the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.data.errors import BadOptionError
from engine.data.events import Finished
from engine.data.folders import DataFolder
from engine.data.request import (
    DraftParams,
    GenerateRequest,
    LoadRequest,
    Message,
    SamplingParams,
    Speculate,
)
from engine.data.rounds import EmittedToken, RoundTrace
from engine.llama.abort import AbortFlag
from engine.llama.library import Library
from engine.serving.session import Session
from tests.engine.conftest import THREADS
from tests.thinking_template import THINKING, THINKING_MARKERS
from tests.tiny_gguf import CONTROL_TOKENS, write_tiny_gguf

LETTERS = ("Ċ", *"abcdehimnorstuv", "|", "<", ">", "_")
ASKED = GenerateRequest(
    messages=(Message("user", "abc abc"),),
    max_tokens=160,
    sampling=SamplingParams(temperature=4.0, seed=3),
    drafting=DraftParams("off", 4, coupling="seed"),
)
SEEDS = range(6)


@pytest.fixture(scope="module")
def session(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("thinking")
    path = write_tiny_gguf(
        folder / "thinker.gguf",
        tokens=LETTERS,
        control_tokens=(*CONTROL_TOKENS, *THINKING_MARKERS),
        chat_template=THINKING,
    )
    session = Session(library, DataFolder(folder / "data"), AbortFlag())
    request = LoadRequest(str(path), "first(ngram,recycle:tree=8)", 256, THREADS, numerics="strict")
    session.load(request, lambda _label, _share: None)
    yield session
    session.unload()


def reply(session: Session, request: GenerateRequest) -> tuple[Finished, list[EmittedToken]]:
    tokens: list[EmittedToken] = []
    for event in session.generate(request, lambda: False):
        if isinstance(event, RoundTrace):
            tokens += event.emitted
        if isinstance(event, Finished):
            return event, tokens
    raise AssertionError("a reply without an end")


def asked(seed: int, speculate: Speculate = "off") -> GenerateRequest:
    sampling, drafting = replace(ASKED.sampling, seed=seed), ASKED.drafting
    drafting = replace(drafting, speculate=speculate)
    return replace(ASKED, sampling=sampling, drafting=drafting, reuse=False)


def test_what_is_known_of_it(session: Session) -> None:
    assert session.summary is not None
    reasoning = session.summary.reasoning
    assert reasoning is not None
    assert reasoning.switch is not None
    assert (reasoning.switch.variable, reasoning.switch.usual) == ("enable_thinking", "on")
    assert reasoning.keeping == (("preserve_thinking", True),)
    assert reasoning.keeps_thoughts
    assert reasoning.effort is None


def test_the_thought_is_apart_from_the_answer(session: Session) -> None:
    answered = 0
    for seed in SEEDS:
        finished, tokens = reply(session, asked(seed))
        thought = finished.thought
        assert thought is not None
        assert thought.start == 0
        assert [one.part for one in tokens[: thought.end]] == ["thought"] * thought.end
        assert {one.part for one in tokens[thought.end :]} <= {"answer"}
        assert "".join(one.shown for one in tokens[: thought.end]).strip() == thought.text
        assert "".join(one.shown for one in tokens[thought.end :]) == finished.text
        assert tuple(one.token for one in tokens) == finished.tokens
        answered += bool(finished.text)
        assert finished.to_json()["reasoning"] == {
            "text": thought.text,
            "from": 0,
            "to": thought.end,
        }
    assert answered, "no reply came to an end of its thought"


def test_strict_text_is_the_same_with_drafts(session: Session) -> None:
    for seed in SEEDS:
        plain, _ = reply(session, asked(seed))
        drafted, _ = reply(session, asked(seed, "always"))
        assert drafted.stats.proposed
        assert (drafted.tokens, drafted.text, drafted.thought, drafted.finish) == (
            plain.tokens,
            plain.text,
            plain.thought,
            plain.finish,
        )


def test_off_closes_the_thought_in_the_prompt(session: Session) -> None:
    on, _ = reply(session, replace(asked(1), max_tokens=1))
    off, tokens = reply(session, replace(asked(1), max_tokens=8, thinking="off"))
    assert off.prompt_tokens > on.prompt_tokens
    assert tokens[0].part == "answer"
    assert "reasoning" not in off.to_json() or off.thought


def test_a_reply_goes_on_where_it_ended(session: Session) -> None:
    whole, _ = reply(session, asked(2))
    assert whole.thought is not None
    half = whole.thought.end // 2
    rest, tokens = reply(session, replace(asked(2), continuation=whole.tokens[:half]))
    assert rest.prompt_tokens == whole.prompt_tokens
    assert tokens[0].part == "thought"
    behind = whole.tokens[: whole.thought.end + 1]
    if len(behind) > whole.thought.end:
        _, tokens = reply(session, replace(asked(2), max_tokens=4, continuation=behind))
        assert {one.part for one in tokens} == {"answer"}


def test_earlier_thoughts_are_kept_where_the_template_keeps_them(session: Session) -> None:
    first, _ = reply(session, replace(asked(4), reuse=True))
    assert first.thought is not None
    said = Message("assistant", "abc", "ordered notions")
    messages = (*ASKED.messages, said, Message("user", "more"))
    with_thought, _ = reply(session, replace(asked(4), messages=messages, max_tokens=1))
    bare = (*ASKED.messages, Message("assistant", "abc"), Message("user", "more"))
    without, _ = reply(session, replace(asked(4), messages=bare, max_tokens=1))
    assert with_thought.prompt_tokens > without.prompt_tokens


def test_levels_that_there_are_not_are_refused(session: Session) -> None:
    with pytest.raises(BadOptionError, match="no levels of effort"):
        reply(session, replace(asked(0), effort="high"))
    with pytest.raises(BadOptionError, match="thinking must be"):
        replace(asked(0), thinking="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_a_budget_ends_the_thought_alike_with_and_without_drafts(
    session: Session, budget: int
) -> None:
    """With trees and ensembles, too: the target's passes are those of plain decoding."""
    for seed in SEEDS:
        limited = replace(asked(seed), max_tokens=40, thinking_budget=budget)
        plain, tokens = reply(session, limited)
        drafting = replace(limited.drafting, speculate="always")
        drafted, _ = reply(session, replace(limited, drafting=drafting))
        assert (drafted.tokens, drafted.thought) == (plain.tokens, plain.thought)
        assert plain.thought is not None
        given = [place for place, one in enumerate(tokens) if one.forced]
        assert (budget in given) == (plain.thought.end > budget)
        assert plain.stats.emitted == len(plain.tokens) - len(given)
