"""The round loop over a toy target: text, caches, figures, and every way to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.control.controller import AlwaysDraft, NeverDraft
from engine.data.errors import DrafterError, NativeError
from engine.data.events import Notice
from engine.data.request import DraftParams, GenerateRequest, SamplingParams
from engine.data.rounds import RoundTrace
from engine.data.stats import StatsCounter
from engine.decode.loop import DraftSetup, RoundLoop, Streams
from engine.drafters.base import Observation
from engine.llama.abort import PassAborted
from engine.maths.proposal import ROOT, Proposal
from engine.maths.randomness import CoupledStream, IndependentStream
from tests.engine import scripted
from tests.engine.scripted import END, ScriptedDrafter, ToyTarget, ToyVocabulary, greedy_text

PROMPT = [3, 1, 4, 1, 5]
ORACLE = scripted.toy_oracle()
SCRIPTS = {
    "right": scripted.right(ORACLE),
    "wrong": scripted.wrong(ORACLE),
    "alternating": scripted.alternating(ORACLE),
    "empty": scripted.empty,
    "too long": scripted.too_long(ORACLE),
    "tree": scripted.tree(ORACLE),
}


def make_loop(
    target: ToyTarget,
    drafter: ScriptedDrafter | None,
    max_tokens: int | None = 30,
    draft_max: int = 5,
    max_width: int = 65,
    seed: int | None = None,
) -> RoundLoop:
    """seed None: greedy; else temperature 1 with coupled draws."""
    target.tokens = PROMPT[:-1]
    return RoundLoop(
        target,
        DraftSetup(
            drafter, AlwaysDraft(draft_max) if drafter is not None else NeverDraft(), max_width
        ),
        GenerateRequest(
            raw_prompt="x",
            max_tokens=max_tokens,
            sampling=SamplingParams(temperature=0.0 if seed is None else 1.0),
            drafting=DraftParams("always", draft_max, coupling="seed"),
        ),
        Streams(CoupledStream(seed or 0), CoupledStream(seed or 0))
        if seed is not None
        else Streams(IndependentStream(1, "target"), IndependentStream(1, "draft")),
    )


def traces(loop: RoundLoop) -> list[RoundTrace]:
    events = list(loop.run(list(PROMPT), ToyVocabulary(), lambda: False))
    rounds = [event for event in events if isinstance(event, RoundTrace)]
    assert len(rounds) == len(events), "unexpected notices"
    return rounds


def tokens_of(rounds: Sequence[RoundTrace]) -> list[int]:
    return [emitted.token for trace in rounds for emitted in trace.emitted]


def assert_books_balance(loop: RoundLoop, target: ToyTarget) -> None:
    assert target.tokens == loop.context[:-1]


@pytest.mark.parametrize("name", SCRIPTS)
def test_greedy_text_is_the_plain_text(name: str) -> None:
    target = ToyTarget()
    loop = make_loop(target, ScriptedDrafter(SCRIPTS[name]))
    assert tokens_of(traces(loop)) == greedy_text(scripted.toy_logits, PROMPT, 30)
    assert loop.finish == "length"
    assert_books_balance(loop, target)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_coupled_text_is_the_plain_text(name: str, seed: int) -> None:
    plain = tokens_of(traces(make_loop(ToyTarget(), None, seed=seed)))
    target = ToyTarget()
    loop = make_loop(target, ScriptedDrafter(SCRIPTS[name]), seed=seed)
    assert tokens_of(traces(loop)) == plain
    assert_books_balance(loop, target)


@pytest.mark.parametrize("name", SCRIPTS)
def test_hidden_states_of_the_accepted_path_reach_a_drafter_that_needs_them(name: str) -> None:
    drafter = ScriptedDrafter(SCRIPTS[name])
    drafter.needs = "final hidden state"
    loop = make_loop(ToyTarget(), drafter)
    last, rows = PROMPT[-1], 0
    traces(loop)
    for seen in drafter.observed:
        assert seen.features is not None
        path = [seen.proposal.tokens[node] for node in seen.accepted_path]
        assert seen.features[:, 0].tolist() == [last, *path]
        last, rows = seen.emitted[-1], rows + len(seen.features)
    assert rows >= 30


def test_a_right_draft_needs_few_rounds_and_a_wrong_one_costs_none() -> None:
    right = traces(make_loop(ToyTarget(), ScriptedDrafter(SCRIPTS["right"]), draft_max=5))
    wrong = traces(make_loop(ToyTarget(), ScriptedDrafter(SCRIPTS["wrong"]), draft_max=5))
    assert len(right) == 5 and len(wrong) == 30
    assert {e.kind for t in wrong[:-1] for e in t.emitted} == {"correction"}
    assert [e.kind for e in right[0].emitted] == ["accepted"] * 5 + ["bonus"]


@pytest.mark.parametrize("length", range(6, 16))
@pytest.mark.parametrize("name", ["right", "alternating", "tree", "too long"])
def test_text_ends_at_an_end_of_text_inside_a_proposal(name: str, length: int) -> None:
    logits = scripted.ending_logits(length)
    script: dict[str, Callable[[scripted.Oracle], scripted.Script]] = {
        "right": scripted.right,
        "alternating": scripted.alternating,
        "tree": scripted.tree,
        "too long": scripted.too_long,
    }

    def beyond_the_end(context: Sequence[int], count: int) -> list[int]:
        tokens = greedy_text(logits, context, count)
        return [*tokens, *[2] * (count - len(tokens))]

    target = ToyTarget(logits=logits)
    loop = make_loop(target, ScriptedDrafter(script[name](beyond_the_end)))
    rounds = traces(loop)
    assert tokens_of(rounds) == greedy_text(logits, PROMPT, 30)
    assert tokens_of(rounds)[-1] == END and loop.finish == "eos"
    assert_books_balance(loop, target)
    for trace in rounds:
        ends = {i for i, node in enumerate(trace.proposed) if node.token == END}
        assert not any(node.parent in ends for node in trace.proposed)


@pytest.mark.parametrize("max_tokens", range(1, 14))
@pytest.mark.parametrize("name", ["right", "too long", "tree", "alternating"])
def test_max_tokens_is_met_exactly(name: str, max_tokens: int) -> None:
    target = ToyTarget()
    loop = make_loop(target, ScriptedDrafter(SCRIPTS[name]), max_tokens=max_tokens)
    assert tokens_of(traces(loop)) == greedy_text(scripted.toy_logits, PROMPT, max_tokens)
    assert loop.finish == "length"
    assert_books_balance(loop, target)


@pytest.mark.parametrize("limit", range(6, 20))
@pytest.mark.parametrize("name", ["right", "too long", "tree", "wrong"])
def test_a_full_context_ends_the_reply(name: str, limit: int) -> None:
    """ToyTarget refuses a pass beyond its length, however wide the tree."""
    target = ToyTarget(length_limit=limit)
    loop = make_loop(target, ScriptedDrafter(SCRIPTS[name]))
    rounds = traces(loop)
    room = limit - len(PROMPT) + 1
    assert tokens_of(rounds) == greedy_text(scripted.toy_logits, PROMPT, room)
    assert loop.finish == "context"
    assert_books_balance(loop, target)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["right", "too long", "tree"])
def test_no_pass_is_wider_than_allowed(name: str, width: int) -> None:
    target = ToyTarget()
    loop = make_loop(target, ScriptedDrafter(SCRIPTS[name]), max_width=width)
    assert tokens_of(traces(loop)) == greedy_text(scripted.toy_logits, PROMPT, 30)
    assert max(target.widths) == width


@pytest.mark.parametrize("after", [1, 2, 4])
def test_a_failing_drafter_is_dropped_and_the_reply_goes_on(after: int) -> None:
    target = ToyTarget()
    drafter = ScriptedDrafter(scripted.failing(SCRIPTS["right"], after))
    loop = make_loop(target, drafter)
    events = list(loop.run(list(PROMPT), ToyVocabulary(), lambda: False))
    notices = [event for event in events if isinstance(event, Notice)]
    rounds = [event for event in events if isinstance(event, RoundTrace)]
    assert len(notices) == 1 and "scripted" in notices[0].message
    assert tokens_of(rounds) == greedy_text(scripted.toy_logits, PROMPT, 30)
    assert all(not trace.proposed for trace in rounds[after - 1 :])
    assert_books_balance(loop, target)


class FailsToObserve(ScriptedDrafter):
    def observe(self, observation: Observation) -> None:
        raise DrafterError("cannot cut back")


def test_a_drafter_that_fails_to_observe_is_dropped() -> None:
    loop = make_loop(ToyTarget(), FailsToObserve(SCRIPTS["right"]))
    events = list(loop.run(list(PROMPT), ToyVocabulary(), lambda: False))
    rounds = [event for event in events if isinstance(event, RoundTrace)]
    assert sum(isinstance(event, Notice) for event in events) == 1
    assert tokens_of(rounds) == greedy_text(scripted.toy_logits, PROMPT, 30)


@pytest.mark.parametrize("name", SCRIPTS)
def test_closing_the_iterator_leaves_valid_caches(name: str) -> None:
    target = ToyTarget()
    loop = make_loop(target, ScriptedDrafter(SCRIPTS[name]))
    rounds = loop.run(list(PROMPT), ToyVocabulary(), lambda: False)
    for _ in range(3):
        next(rounds)
    rounds.close()
    assert_books_balance(loop, target)
    assert loop.finish == "cancelled"


def test_cancelling_stops_within_a_round() -> None:
    target = ToyTarget()
    loop = make_loop(target, ScriptedDrafter(SCRIPTS["alternating"]))
    seen: list[RoundTrace] = []
    for event in loop.run(list(PROMPT), ToyVocabulary(), lambda: len(seen) >= 4):
        assert isinstance(event, RoundTrace)
        seen.append(event)
    assert len(seen) == 4 and loop.finish == "cancelled"
    assert_books_balance(loop, target)


@pytest.mark.parametrize("name", ["right", "tree"])
@pytest.mark.parametrize(("kind", "error"), [("abort", PassAborted), ("fail", NativeError)])
def test_a_stopped_or_failed_pass_leaves_what_was_emitted(
    name: str, kind: str, error: type[Exception]
) -> None:
    target = ToyTarget(abort_at=3 if kind == "abort" else 0, fail_at=3 if kind == "fail" else 0)
    loop = make_loop(target, ScriptedDrafter(SCRIPTS[name]))
    seen: list[RoundTrace] = []
    with pytest.raises(error):
        for event in loop.run(list(PROMPT), ToyVocabulary(), lambda: False):
            assert isinstance(event, RoundTrace)
            seen.append(event)
    assert len(seen) == 2
    assert loop.context == [*PROMPT, *tokens_of(seen)]
    assert_books_balance(loop, target)


@pytest.mark.parametrize("name", SCRIPTS)
def test_drafters_see_the_whole_context_and_every_outcome(name: str) -> None:
    drafter = ScriptedDrafter(SCRIPTS[name])
    loop = make_loop(ToyTarget(), drafter)
    rounds = traces(loop)
    assert [o.emitted for o in drafter.observed] == [
        tuple(e.token for e in trace.emitted) for trace in rounds
    ]
    seen = list(PROMPT)
    for context, trace in zip(drafter.contexts, rounds, strict=False):
        assert context == seen and trace.position == len(seen)
        seen += [emitted.token for emitted in trace.emitted]


@pytest.mark.parametrize("name", SCRIPTS)
def test_traces_and_figures_agree(name: str) -> None:
    rounds = traces(make_loop(ToyTarget(), ScriptedDrafter(SCRIPTS[name])))
    counter = StatsCounter()
    for number, trace in enumerate(rounds, start=1):
        counter.add(trace)
        assert trace.round == number
        kept = [node for node in trace.proposed if node.accepted]
        accepted = [emitted for emitted in trace.emitted if emitted.kind == "accepted"]
        assert [(n.token, n.depth, n.p) for n in kept] == [
            (e.token, e.depth, e.p) for e in accepted
        ]
        last = trace.emitted[-1].kind
        deepest = max((node.depth for node in trace.proposed), default=0)
        if not trace.proposed:
            assert last == "plain"
        elif last != "accepted":
            assert last == ("bonus" if len(kept) == deepest else "correction")
        assert min(trace.seconds.draft, trace.seconds.target, trace.seconds.other) >= 0.0
    stats = counter.snapshot()
    assert stats.emitted == 30 == len(tokens_of(rounds))
    assert stats.rounds == len(rounds)
    assert stats.accepted == sum(e.kind == "accepted" for t in rounds for e in t.emitted)
    assert stats.accepted == sum(stats.accepted_by_position)
    assert stats.proposed == sum(stats.proposed_by_position)
    assert stats.emitted == stats.accepted + stats.rounds


def test_a_character_cut_by_the_end_of_the_context_is_shown() -> None:
    class HalfCharacters(ToyVocabulary):
        def piece(self, token: int) -> bytes:
            return "é".encode()[:1]

    rounds = [
        event
        for event in make_loop(ToyTarget(length_limit=8), None).run(
            list(PROMPT), HalfCharacters(), lambda: False
        )
        if isinstance(event, RoundTrace)
    ]
    assert rounds[-1].emitted[-1].text.endswith("\N{REPLACEMENT CHARACTER}")


@st.composite
def trees(draw: st.DrawFn) -> Proposal:
    count = draw(st.integers(0, 12))
    tokens = draw(st.lists(st.integers(0, END), min_size=count, max_size=count))
    parents = [draw(st.integers(ROOT, index - 1)) for index in range(count)]
    return Proposal(tuple(tokens), tuple(parents), ("scripted",) * count, (None,) * count)


@given(st.lists(trees(), min_size=1, max_size=6), st.integers(1, 20), st.integers(6, 25))
def test_any_tree_gives_the_plain_text(
    proposals: list[Proposal], max_tokens: int, limit: int
) -> None:
    target = ToyTarget(length_limit=limit)
    script = lambda context, depth: proposals[len(context) % len(proposals)]  # noqa: E731
    loop = make_loop(target, ScriptedDrafter(script), max_tokens=max_tokens, max_width=9)
    room = min(max_tokens, limit - len(PROMPT) + 1)
    assert tokens_of(traces(loop)) == greedy_text(scripted.toy_logits, PROMPT, room)
    assert_books_balance(loop, target)


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_a_longest_reply_the_context_is_filled(name: str) -> None:
    target = ToyTarget(length_limit=40)
    loop = make_loop(target, ScriptedDrafter(SCRIPTS[name]), max_tokens=None)
    written = tokens_of(traces(loop))
    assert loop.finish == "context"
    assert len(PROMPT) + len(written) == 41, "the last token needs no place in the cache"
    assert written == greedy_text(scripted.toy_logits, PROMPT, len(written))
    assert_books_balance(loop, target)
