"""A reply that goes on where it was cut is the reply that nobody cut: tokens, texts and parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.data.errors import BadOptionError
from engine.data.events import Finished, Retold, RunEvent
from engine.data.folders import DataFolder
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
from tests.thinking_template import THINKING, THINKING_MARKERS
from tests.tiny_gguf import CONTROL_TOKENS, write_tiny_gguf

# Letters of a marker over several tokens, and bytes of characters over several: é, €.
TOKENS = ("Ċ", "a", "b", "</", "think", ">", "Ã", "©", "â", "Ĥ", "¬")
LENGTH = 48
GREEDY = SamplingParams()
SEEDS = (0, 18, 20, 27)
"""Of replies with halves of characters and of markers, some with an answer."""
Told = tuple[int, str, str]


@pytest.fixture(scope="module")
def session(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("continued")
    path = write_tiny_gguf(
        folder / "thinker.gguf",
        tokens=TOKENS,
        control_tokens=(*CONTROL_TOKENS, *THINKING_MARKERS),
        chat_template=THINKING,
    )
    session = Session(library, DataFolder(folder / "data"), AbortFlag())
    request = LoadRequest(str(path), "first(ngram,recycle:tree=8)", 256, THREADS, numerics="strict")
    session.load(request, lambda _label, _share: None)
    yield session
    session.unload()


def asked(
    sampling: SamplingParams, speculate: Speculate = "off", count: int = LENGTH
) -> GenerateRequest:
    return GenerateRequest(
        messages=(Message("user", "abba"),),
        max_tokens=count,
        sampling=sampling,
        drafting=DraftParams(speculate, 4, coupling="seed"),
        thinking_budget=LENGTH // 2,
    )


def run(session: Session, request: GenerateRequest, stop_at: int | None = None) -> list[RunEvent]:
    """stop_at: new tokens after which somebody presses Stop."""
    events: list[RunEvent] = []

    def stopped() -> bool:
        rounds = [event for event in events if isinstance(event, RoundTrace)]
        return stop_at is not None and sum(len(one.emitted) for one in rounds) >= stop_at

    for event in session.generate(request, stopped):
        events.append(event)
    return events


def told(events: list[RunEvent], before: tuple[int, ...] = ()) -> list[Told]:
    """Every token with what it adds, as the last event that tells of it has it."""
    found: list[Told] = []
    for event in events:
        if isinstance(event, Retold):
            assert not found and len(event.tokens) == len(before)
            pairs = zip(before, event.tokens, strict=True)
            found = [(token, one.text, one.part) for token, one in pairs]
        elif isinstance(event, RoundTrace):
            found += [(one.token, one.shown, one.part) for one in event.emitted]
    return found


def end(events: list[RunEvent]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished)
    return last


def sampled(seed: int) -> SamplingParams:
    return SamplingParams(temperature=4.0, seed=seed)


@pytest.mark.parametrize(
    "sampling", [GREEDY, *map(sampled, SEEDS)], ids=["greedy", *map(str, SEEDS)]
)
@pytest.mark.parametrize("reuse", [True, False], ids=["held", "read again"])
def test_cut_at_every_place(session: Session, sampling: SamplingParams, reuse: bool) -> None:
    whole = run(session, asked(sampling))
    expected, finished = told(whole), end(whole)
    assert len(finished.tokens) > 10
    for at in range(1, len(finished.tokens)):
        before = finished.tokens[:at]
        speculate: Speculate = "always" if at % 2 else "off"
        request = asked(sampling, speculate, LENGTH - at)
        rest = run(session, replace(request, continuation=before, reuse=reuse))
        assert told(rest, before) == expected, at
        assert before + end(rest).tokens == finished.tokens
        assert end(rest).prompt_tokens == finished.prompt_tokens
        assert end(rest).finish == finished.finish


def test_stopped_in_a_character_or_a_marker(session: Session) -> None:
    """Halves were told as they stood, and are told again when they are whole."""
    retold = 0
    for sampling in map(sampled, SEEDS):
        whole = run(session, asked(sampling))
        expected, finished = told(whole), end(whole)
        for at in range(1, len(finished.tokens)):
            first = run(session, asked(sampling, count=at))
            begun = end(first).tokens
            request = asked(sampling, count=LENGTH - at)
            assert told(run(session, replace(request, continuation=begun)), begun) == expected
            retold += told(first) != expected[:at]
    assert retold, "no cut was inside a character or a marker"


def test_continued_twice(session: Session) -> None:
    for sampling in map(sampled, SEEDS):
        finished = end(run(session, asked(sampling)))
        tokens: tuple[int, ...] = ()
        while len(tokens) < len(finished.tokens):
            request = asked(sampling, "always", LENGTH - len(tokens))
            part = end(run(session, replace(request, continuation=tokens), stop_at=5))
            assert part.tokens
            tokens += part.tokens
        assert tokens == finished.tokens


def test_what_ended_does_not_go_on(session: Session) -> None:
    """The rejected draft that a reply begins with may be the end of it."""
    vocabulary = session.summary.target.vocabulary_size if session.summary else 0
    ends = vocabulary - len(THINKING_MARKERS) - 1  # <|im_end|>
    events = run(session, replace(asked(GREEDY), continuation=(1, ends)))
    assert (end(events).finish, end(events).tokens) == ("eos", ())


def test_ids_of_another_vocabulary_are_refused(session: Session) -> None:
    assert session.summary is not None
    own = session.summary.target.vocabulary
    assert own
    request = replace(asked(GREEDY, count=1), continuation=(1,))
    assert end(run(session, replace(request, vocabulary=own))).tokens
    with pytest.raises(BadOptionError, match="another vocabulary"):
        run(session, replace(request, vocabulary="0" * len(own)))
