"""Long chats that are trimmed: the cut of one step at a time, each message cut once, Stop acts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from engine.data.errors import ContextLengthError, StopRequested
from engine.data.request import GenerateRequest, Message
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.llama.vocab import Vocab
from engine.text.chat import ChatTemplate
from engine.text.prompt import build_prompt, prompt_tokens
from engine.text.tokenizer import PromptTokenizer
from tests.tiny_gguf import CHATML, write_tiny_gguf

ALTERNATING = (
    "{% for m in messages %}{% if m.role == 'user' and loop.index0 % 2 %}"
    "{{ raise_exception('odd') }}{% endif %}<|im_start|>{{ m.content|trim }}{% endfor %}"
)


@dataclass(frozen=True)
class Place:
    """What a context is asked for here."""

    model: Model
    length_limit: int


class CountingVocab(Vocab):
    """Counts how often each text is cut."""

    def __init__(self, vocab: Vocab) -> None:
        super().__init__(vocab._handle)
        self.cuts: Counter[str] = Counter()

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        self.cuts[text] += 1
        return super().tokenize(text, add_special=add_special, parse_special=parse_special)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, library: Library) -> Iterator[Model]:
    path = write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf", layers=1)
    with Model(path, ModelOptions(), library.log) as model:
        yield model


@pytest.fixture(scope="module")
def template() -> Iterator[ChatTemplate]:
    template = ChatTemplate(CHATML, "", "")
    yield template
    template.close()


def chat(turns: int, system: bool = True) -> tuple[Message, ...]:
    messages = [Message("system", "be brief")] if system else []
    for turn in range(turns):
        messages += [
            Message("user", f"question {turn} " + "the " * (turn % 5)),
            Message("assistant", f"answer {turn} " + "hello " * (turn % 7)),
        ]
    return (*messages, Message("user", "and now?"))


def one_at_a_time(
    vocab: Vocab, template: ChatTemplate, request: GenerateRequest, limit: int
) -> list[int]:
    """The rule itself: the oldest question with its answer goes until the rest fits."""
    messages = list(request.messages)
    room = limit - min(request.max_tokens or limit, limit // 4)
    first = 1 if messages[0].role == "system" else 0
    while True:
        tokens = prompt_tokens(vocab, template.prompt(messages), ())
        if len(tokens) <= room or len(messages) <= first + 1:
            return tokens
        del messages[first : first + (2 if len(messages) > first + 2 else 1)]


@pytest.mark.parametrize("limit", [60, 100, 150, 300, 555, 1000])
@pytest.mark.parametrize("turns", [1, 2, 9, 40])
@pytest.mark.parametrize("system", [True, False])
def test_the_cut_is_where_one_step_at_a_time_makes_it(
    model: Model, template: ChatTemplate, limit: int, turns: int, system: bool
) -> None:
    request = GenerateRequest(messages=chat(turns, system), overflow="trim", max_tokens=20)
    tokens, notices = build_prompt(request, template, Place(model, limit), ())
    whole = prompt_tokens(model.vocab, template.prompt(request.messages), ())
    if len(whole) < limit:
        assert tokens == whole and not notices
    else:
        assert tokens == one_at_a_time(model.vocab, template, request, limit)


def test_a_last_message_that_is_too_long_is_refused(model: Model, template: ChatTemplate) -> None:
    request = GenerateRequest(messages=(Message("user", "x" * 500),), overflow="trim")
    with pytest.raises(ContextLengthError, match="start a new chat"):
        build_prompt(request, template, Place(model, 100), ())


def test_chats_that_a_template_refuses_are_not_looked_at_beyond_the_cut(model: Model) -> None:
    """Without the last question's predecessor the chat would begin with an answer."""
    picky = ChatTemplate(ALTERNATING, "", "")
    messages = (*chat(20, system=False), Message("assistant", "so " * 20))
    request = GenerateRequest(messages=messages, overflow="trim", max_tokens=20)
    tokens, notices = build_prompt(request, picky, Place(model, 200), ())
    assert tokens == one_at_a_time(model.vocab, picky, request, 200) and notices
    picky.close()


def test_each_message_is_cut_once(model: Model, template: ChatTemplate) -> None:
    vocab = CountingVocab(model.vocab)
    tokenizer = PromptTokenizer(vocab)
    request = GenerateRequest(messages=chat(100), overflow="trim", max_tokens=20)
    for _ in range(2):
        build_prompt(request, template, Place(model, 300), (), tokenizer)
    assert len(vocab.cuts) > 200 and set(vocab.cuts.values()) == {1}


@pytest.mark.parametrize("asked", [0, 1, 50, 201])
def test_stop_acts_between_messages(model: Model, template: ChatTemplate, asked: int) -> None:
    answers = iter([*[False] * asked, True])
    request = GenerateRequest(messages=chat(100), overflow="trim", max_tokens=20)
    tokenizer = PromptTokenizer(model.vocab)
    with pytest.raises(StopRequested):
        build_prompt(
            request,
            template,
            Place(model, 300),
            (),
            tokenizer,
            lambda: next(answers),
        )


@pytest.mark.slow
def test_figures_of_long_chats(model: Model, template: ChatTemplate) -> None:
    template.render(chat(1))
    for turns in (100, 400, 1000, 4000):
        request = GenerateRequest(messages=chat(turns), overflow="trim", max_tokens=200)
        started = time.perf_counter()
        tokens, _ = build_prompt(request, template, Place(model, 2048), ())
        seconds = time.perf_counter() - started
        print(f"\n{turns:5} turns: trimmed to {len(tokens)} tokens in {seconds:.2f} s", end="")
        assert len(tokens) <= 2048 - 200
    print()
