"""Budgets of thoughts: when the end is given, and that the rest keeps the target's own law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from engine.control.controller import AlwaysDraft, NeverDraft
from engine.data.reasoning import ThoughtMarkers
from engine.data.request import DraftParams, GenerateRequest, SamplingParams
from engine.data.rounds import RoundTrace
from engine.data.stats import StatsCounter
from engine.decode.loop import DraftSetup, RoundLoop, Streams
from engine.maths.randomness import IndependentStream
from engine.maths.sampling import Sampler
from engine.serving.thought_limit import ThoughtLimit, budget_of
from engine.serving.thoughts import ReplyThoughts
from tests.engine import scripted
from tests.engine.scripted import ScriptedDrafter, ToyTarget, ToyVocabulary, toy_logits
from tests.fakes import BranchingStream, outcomes

MARKERS = ThoughtMarkers(("j",), ("bc",))
END = (1, 2)
OPENED, CLOSED = [3, 1, 9], [3, 1, 4]
LONGEST = 6
SAMPLING = SamplingParams(temperature=1.0, top_k=2)
ORACLE = scripted.toy_oracle()
SCRIPTS: dict[str, scripted.Script | None] = {
    "plain": None,
    "right": scripted.right(ORACLE),
    "wrong": scripted.wrong(ORACLE),
    "alternating": scripted.alternating(ORACLE),
    "tree": scripted.tree(ORACLE),
}
Told = Callable[[], bool]


class Letters(ToyVocabulary):
    def piece(self, token: int, *, special: bool = False) -> bytes:
        return super().piece(token)


def never() -> bool:
    return False


def written(
    prompt: list[int],
    script: scripted.Script | None,
    stream: BranchingStream | IndependentStream,
    budget: int | None,
    told: Told = never,
    continuation: tuple[int, ...] = (),
) -> list[RoundTrace]:
    """As a Reply does it: what a round added is known before the next one begins."""
    context = [*prompt, *continuation]
    target = ToyTarget(tokens=context[:-1])
    drafter = None if script is None else ScriptedDrafter(script)
    controller = NeverDraft() if drafter is None else AlwaysDraft(4)
    request = GenerateRequest(
        raw_prompt="x",
        max_tokens=LONGEST - len(continuation),
        sampling=SAMPLING,
        drafting=DraftParams("always", 4),
    )
    thoughts = ReplyThoughts(MARKERS, Letters(), context, continuation)
    limit = ThoughtLimit(thoughts, budget, END, told)
    streams = Streams(stream, IndependentStream(1, "draft"))
    loop = RoundLoop(target, DraftSetup(drafter, controller, 65), request, streams, limit)
    rounds = []
    for event in loop.run(context, Letters(), never):
        assert isinstance(event, RoundTrace)
        thoughts.take(event)
        rounds.append(event)
    assert target.tokens == context[:-1], "the cache is where the text is"
    return rounds


def tokens_of(rounds: list[RoundTrace]) -> tuple[int, ...]:
    return tuple(emitted.token for trace in rounds for emitted in trace.emitted)


def law(prompt: list[int], script: scripted.Script | None, budget: int) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for weight, tokens in outcomes(
        lambda stream: tokens_of(written(prompt, script, stream, budget))
    ):
        found[tokens] += weight  # type: ignore[assignment]
    return found


def expected(prompt: list[int], budget: int) -> Counter[tuple[int, ...]]:
    """The definition, token by token: the target's own law wherever nothing has to be given."""
    found: Counter[tuple[int, ...]] = Counter()
    waiting: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    sampler = Sampler(SAMPLING)
    while waiting:
        reply, weight = waiting.pop()
        if len(reply) == LONGEST:
            found[reply] += weight  # type: ignore[assignment]
            continue
        given = next_given(prompt, reply, budget)
        if given is not None:
            waiting.append(((*reply, given), weight))
            continue
        context = [*prompt, *reply]
        p = sampler.distribution(toy_logits(context), list(sampler.recent(context)))
        for token, mass in zip(p.ids, p.probabilities, strict=True):
            waiting.append(((*reply, int(token)), weight * float(mass)))
    return found


def next_given(prompt: list[int], reply: tuple[int, ...], budget: int) -> int | None:
    text = "".join(chr(ord("a") + token) for token in reply)
    is_open = prompt[-1] == 9
    while True:
        if not is_open:
            if not text.startswith("j"):
                return None
            text = text[1:]
        before, ended, after = text.partition("bc")
        if not ended:
            break
        text, is_open = after, False  # another thought may follow, with the whole budget
    if len(before) < budget:
        return None
    return 2 if before.endswith("b") else 1


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("budget", [0, 1, 2, 3, 5])
def test_the_law_is_the_targets_own_but_for_what_is_given(name: str, budget: int) -> None:
    found, wanted = law(OPENED, SCRIPTS[name], budget), expected(OPENED, budget)
    assert len(wanted) > 1
    assert set(found) == set(wanted)
    for tokens, weight in wanted.items():
        assert found[tokens] == pytest.approx(weight, abs=1e-9)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_reply_that_does_not_think_is_left_alone(name: str) -> None:
    found, wanted = law(CLOSED, SCRIPTS[name], 0), expected(CLOSED, 0)
    assert found == pytest.approx(wanted)


def test_what_is_given_is_in_no_figure() -> None:
    rounds = written(OPENED, SCRIPTS["right"], IndependentStream(1, "target"), 0)
    assert tokens_of(rounds)[:2] == END
    given = [one for trace in rounds for one in trace.emitted if one.forced]
    assert [one.kind for one in given] == ["plain", "plain"]
    assert [one.to_json()["p"] for one in given] == [None, None]
    counter = StatsCounter()
    for trace in rounds:
        counter.add(trace)
    stats = counter.snapshot()
    assert (stats.emitted, stats.rounds) == (LONGEST - 2, len(rounds) - 2)


@pytest.mark.parametrize("name", SCRIPTS)
def test_told_to_answer_the_thought_ends_in_the_next_round(name: str) -> None:
    asked = 0

    def told() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    rounds = written(OPENED, SCRIPTS[name], IndependentStream(3, "target"), None, told)
    text = "".join(one.text for trace in rounds for one in trace.emitted)
    assert "bc" in text
    first = next(index for index, trace in enumerate(rounds) if trace.is_forced)
    assert not any(trace.is_forced for trace in rounds[first + 2 :])


def test_told_when_the_thought_has_just_ended_nothing_is_given() -> None:
    stream = IndependentStream(1, "target")
    rounds = written(OPENED, None, stream, None, lambda: True, continuation=END)
    assert not any(trace.is_forced for trace in rounds)


def test_a_marker_that_was_begun_is_completed() -> None:
    stream = IndependentStream(1, "target")
    rounds = written(OPENED, None, stream, 1, continuation=(1,))
    assert tokens_of(rounds)[0] == 2
    assert not rounds[1].is_forced


def test_budgets() -> None:
    request = GenerateRequest(raw_prompt="x")
    assert budget_of(request, 100_000) == 4096
    assert budget_of(request, 1000) == 500
    for number in (0, 512, 9000):
        told = GenerateRequest(raw_prompt="x", thinking_budget=number)
        assert budget_of(told, 1000) == number
    assert budget_of(GenerateRequest(raw_prompt="x", thinking_budget=-1), 1000) is None
