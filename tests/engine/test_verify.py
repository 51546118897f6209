"""`forerun verify`: replies from a script, differences found and weighed, the test of the law."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.bench.verify import (
    LAW_TOKENS,
    NEAR_TIE,
    EqualityReport,
    VerifyReport,
    check_equality,
    check_law,
    compare_samples,
)
from engine.data.errors import BadOptionError
from engine.data.events import Finished, RunEvent
from engine.data.prompts import BUILT_IN, TrialPrompt, read_prompts
from engine.data.request import GenerateRequest, SamplingParams
from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace
from engine.data.stats import Stats
from engine.maths.proposal import ROOT
from engine.maths.randomness import CoupledStream

PLAIN = (5, 6, 7)
PROMPTS = (TrialPrompt("one"), TrialPrompt("two"))


class ScriptedPair:
    """Speculation changes the reply to "two" after its first token, where the target says p."""

    def __init__(self, p: float) -> None:
        self._p = p
        self.requests: list[GenerateRequest] = []

    def generate(self, request: GenerateRequest) -> Sequence[RunEvent]:
        self.requests.append(request)
        tokens: tuple[int, ...] = PLAIN
        if request.messages[0].content == "two" and request.drafting.speculate == "always":
            tokens = (5, 8)
        tokens = tokens[len(request.continuation) :][: request.max_tokens]
        emitted = tuple(EmittedToken(t, "", "plain", None, self._p, None, None) for t in tokens)
        trace = RoundTrace(1, 1, (), emitted, RoundSeconds(0.0, 0.1, 0.0), parked=False)
        return trace, Finished("", tokens, "eos", 1, 0, 0, Stats())


@pytest.mark.parametrize(("p", "ok"), [(0.6, True), (0.99, False), (1.0, False)])
def test_a_difference_counts_unless_it_is_a_near_tie(p: float, ok: bool) -> None:
    pair = ScriptedPair(p)
    report = check_equality(pair.generate, PROMPTS, SamplingParams(), 48, NEAR_TIE)
    (difference,) = report.differences
    assert (report.prompts, report.identical, report.ok) == (2, 1, ok)
    assert (difference.prompt, difference.position) == ("two", 1)
    assert (difference.plain_token, difference.speculative_token) == (6, 8)
    gap = math.log(p / (1 - p)) if p < 1 else math.inf
    assert difference.gap == pytest.approx(gap)
    assert pair.requests[-1].continuation == (5,)


def test_a_gap_without_end_is_null_in_json() -> None:
    pair = ScriptedPair(1.0)
    report = check_equality(pair.generate, PROMPTS, SamplingParams(), 48, NEAR_TIE)
    rows = json.loads(json.dumps(report.to_json(), allow_nan=False))["differences"]
    assert rows[0]["gap"] is None and rows[0]["prompt"] == "two"


def test_seeded_texts_are_compared_with_the_coupling_that_promises_equality() -> None:
    pair = ScriptedPair(0.6)
    check_equality(pair.generate, PROMPTS, SamplingParams(temperature=0.8, seed=1), 48, 0.0)
    assert {request.drafting.coupling for request in pair.requests[:4]} == {"seed"}


@pytest.mark.parametrize("margin", [0.3, 3.0])
def test_a_seeded_difference_is_weighed_by_the_race_that_decided_it(margin: float) -> None:
    """The second token of "two": plain chose 6, speculation 8, at index 2 of the context."""
    first, second = CoupledStream(9).exponentials(np.array([6, 8]), 2)
    p = 0.5
    other = p * second / first * math.exp(-margin)

    def generate(request: GenerateRequest) -> Sequence[RunEvent]:
        drafted = request.drafting.speculate == "always"
        token, chance = (8, other) if drafted else (6, p)
        emitted = (
            EmittedToken(5, "", "plain", None, 1.0, None, None),
            EmittedToken(token, "", "plain", None, chance, None, None),
        )
        return (RoundTrace(1, 1, (), emitted, RoundSeconds(0.0, 0.1, 0.0), parked=False),)

    sampling = SamplingParams(temperature=0.5, seed=9)
    report = check_equality(generate, PROMPTS[:1], sampling, 48, NEAR_TIE)
    assert report.differences[0].gap == pytest.approx(margin * 0.5)
    assert report.ok == (margin < 1)


class DraftingPair:
    """Drafts `depths` tokens a round, round after round; to "two" it has nothing to say.

    branching: every draft is that many siblings instead of a chain.
    """

    def __init__(self, *depths: int, branching: bool = False) -> None:
        self._depths, self._branching = depths, branching
        self.requests: list[GenerateRequest] = []

    def generate(self, request: GenerateRequest) -> Sequence[RunEvent]:
        self.requests.append(request)
        drafting = request.drafting.speculate == "always"
        silent = request.messages[0].content == "two" or not drafting
        tokens, rounds = PLAIN[: request.max_tokens], []
        for number, token in enumerate(tokens):
            depth = 0 if silent else self._depths[number % len(self._depths)]
            proposed = tuple(
                ProposedToken(9, "", node - 1, 1 + node, "d", 0.1, None, accepted=False)
                if not self._branching
                else ProposedToken(9, "", ROOT, 1, "d", 0.1, None, accepted=False)
                for node in range(depth)
            )
            emitted = (EmittedToken(token, "", "plain", None, 1.0, None, None),)
            seconds = RoundSeconds(0.0, 0.1, 0.0)
            rounds.append(RoundTrace(number + 1, 7 + number, proposed, emitted, seconds, False))
        return *rounds, Finished("", tokens, "eos", 1, 0, 0, Stats())


def test_the_law_is_drawn_with_other_seeds_both_ways_where_drafts_are_long() -> None:
    pair = DraftingPair(4, 1)
    prompts = (TrialPrompt("two"), TrialPrompt("one"))
    report = check_law(pair.generate, prompts, SamplingParams(temperature=1.0), 30)
    assert report.ok and report.draws == 30 and report.tokens == LAW_TOKENS == 3
    tries, draws = pair.requests[:2], pair.requests[2:]
    assert [one.messages[0].content for one in tries] == ["two", "one"]
    assert {one.messages[0].content for one in draws} == {"one"}
    assert len({request.sampling.seed for request in draws}) == 60
    assert min(one.max_tokens or 0 for one in draws) - 1 >= 2, "room for a draft of two tokens"
    assert all(one.drafting.longest_draft >= 2 for one in draws)
    # Of the first three rounds of every speculative beginning, two drafted four tokens.
    assert report.long_drafts == 2 * 30


@pytest.mark.parametrize(
    ("pair", "count"),
    [(DraftingPair(1), 0), (DraftingPair(3, branching=True), 0), (DraftingPair(2), 3)],
)
def test_what_no_long_draft_tested_is_named(pair: DraftingPair, count: int) -> None:
    """Siblings are as shallow as a single token."""
    prompts = (TrialPrompt("one"),)
    greedy = check_equality(pair.generate, prompts, SamplingParams(), 48, 0.0)
    law = check_law(pair.generate, prompts, SamplingParams(temperature=1.0), 2)
    report = VerifyReport(greedy, greedy, law)
    assert greedy.long_drafts == count and law.long_drafts == 2 * count and report.ok
    parts = ("greedy text", "seeded text", "sampled law")
    assert report.untested == (() if count else parts)
    assert report.to_json()["untested"] == list(report.untested)


def test_samples_of_one_law_pass_and_of_two_laws_do_not() -> None:
    generator = np.random.Generator(np.random.Philox(3))
    same, other = (generator.choice(4, 400, p=p) for p in ([0.4, 0.3, 0.2, 0.1], [0.25] * 4))
    again = generator.choice(4, 400, p=[0.4, 0.3, 0.2, 0.1])
    first, second, third = ([(int(v),) for v in draw] for draw in (same, again, other))
    assert compare_samples(first, second).ok
    assert not compare_samples(first, third).ok


def test_the_report_is_json_and_not_ok_if_any_part_is_not() -> None:
    good = EqualityReport(1, 1, 0.0, ())
    law = compare_samples([(1,)] * 20, [(2,)] * 20)
    content = json.loads(json.dumps(VerifyReport(good, good, law).to_json()))
    assert content["greedy"]["ok"] and not content["sampled"]["ok"] and not content["ok"]
    assert VerifyReport(good, good, None).to_json()["sampled"] is None


# Prompts


def test_prompts_come_from_a_file_or_are_built_in(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "a", "category": "x"}\n\n{"turns": ["b", "c"]}\n', encoding="utf-8")
    assert read_prompts(file) == (TrialPrompt("a", "x"), TrialPrompt("b"))
    assert read_prompts(file, 1) == (TrialPrompt("a", "x"),)
    assert read_prompts(None) == BUILT_IN


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no prompts"),
        (b"{", "line 1 is not JSON"),
        (b'{"question": "a"}', 'neither "prompt"'),
        (b'{"prompt": "\xff"}', "not UTF-8"),
    ],
)
def test_a_bad_file_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(content)
    with pytest.raises(BadOptionError, match=message):
        read_prompts(file)


def test_a_limit_below_one_is_told() -> None:
    with pytest.raises(BadOptionError, match="--limit"):
        read_prompts(None, 0)
