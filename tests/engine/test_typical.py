"""Typical acceptance: which tokens it keeps, that the text becomes another one, and says so."""

from __future__ import annotations

import pytest

from engine.control.controller import AlwaysDraft
from engine.data.errors import BadOptionError
from engine.data.events import Finished
from engine.data.request import DraftParams, GenerateRequest, SamplingParams
from engine.data.rounds import RoundTrace
from engine.data.stats import Stats
from engine.decode.loop import DraftSetup, RoundLoop, Streams
from engine.maths.acceptance import choose_rule, verify
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from engine.maths.randomness import IndependentStream
from engine.maths.typical import is_typical, typical_path
from tests.engine.scripted import (
    ScriptedDrafter,
    ToyTarget,
    ToyVocabulary,
    greedy_text,
    toy_logits,
    toy_oracle,
    tree,
)
from tests.engine.toys import constant_toy, dense, distance_to_target, draft_chain, random_toy
from tests.fakes import BranchingStream, outcomes


def chain(*tokens: int) -> Proposal:
    return Proposal.chain(tokens, "t")


@pytest.mark.parametrize(
    ("masses", "kept"),
    [
        ((1.0, 0.0), {0}),
        ((0.92, 0.08), {0}),  # a floor of .09 where p is sharp
        ((0.9, 0.1), {0, 1}),
        ((0.25,) * 4, {0, 1, 2, 3}),  # .3 / 4 where it is flat
        ((0.3, 0.3, 0.3, 0.1), {0, 1, 2, 3}),
        ((0.05,) * 20, set(range(20))),
        ((0.81, 0.13, 0.06), {0, 1}),
    ],
)
def test_tokens_that_are_kept(masses: tuple[float, ...], kept: set[int]) -> None:
    p = dense(*masses)
    assert {token for token in range(len(masses)) if is_typical(p, token)} == kept
    assert not is_typical(p, 99)


def test_the_longest_path_is_kept_and_of_several_the_likeliest() -> None:
    """A tree of 1, 2 and 3, with 1 and 2 below 2, and 3 below 1."""
    proposal = Proposal((1, 2, 3, 1, 2, 3), (ROOT, ROOT, ROOT, 1, 1, 0), ("t",) * 6, (None,) * 6)
    root = dense(0.0, 0.5, 0.3, 0.2)
    flat, sharp = dense(0.0, 0.3, 0.4, 0.3), dense(0.97, 0.01, 0.01, 0.01)
    assert typical_path(proposal, [root, sharp, flat, flat, *[sharp] * 3]) == (1, 4)
    assert typical_path(proposal, [root, flat, flat, flat, *[sharp] * 3]) == (0, 5)
    assert typical_path(proposal, [root, sharp, sharp, flat, *[sharp] * 3]) == (0,)
    assert typical_path(proposal, [sharp] * 7) == ()


def test_what_follows_the_path_is_drawn_from_p() -> None:
    p = dense(0.5, 0.3, 0.2)
    law: dict[tuple[int, int, str], float] = {}
    for weight, verdict in outcomes(
        lambda stream: verify(chain(1, 9), [p, p, p], 0, "typical", stream)
    ):
        key = (len(verdict.path), verdict.token, verdict.kind)
        law[key] = law.get(key, 0.0) + weight
    assert law == pytest.approx({(1, t, "correction"): m for t, m in enumerate((0.5, 0.3, 0.2))})
    whole = [v for _, v in outcomes(lambda s: verify(chain(1, 2), [p, p, p], 0, "typical", s))]
    assert {verdict.kind for verdict in whole} == {"bonus"}
    empty = [v for _, v in outcomes(lambda s: verify(EMPTY_PROPOSAL, [p], 0, "typical", s))]
    assert {verdict.kind for verdict in empty} == {"plain"}


def test_its_law_is_not_the_target_s_and_greedy_text_is() -> None:
    """The reason for the label."""
    q = constant_toy(0.2, 0.2, 0.6)

    def draft(stream: BranchingStream) -> Proposal:
        return draft_chain(q, 2, stream)

    assert distance_to_target(random_toy(5, 3), draft, "typical", 3, 3) > 0.05
    greedy = lambda prefix: dense(*[float(i == len(prefix)) for i in range(4)])  # noqa: E731
    assert distance_to_target(greedy, draft, "typical", 3, 4) == 0.0


def test_which_rule_is_used() -> None:
    assert choose_rule(chain(1), "best") == "point-mass"
    assert choose_rule(chain(1), "best", "typical") == "typical"
    with pytest.raises(BadOptionError, match="choose one"):
        DraftParams(coupling="seed", acceptance="typical")
    with pytest.raises(BadOptionError, match="exact or typical"):
        DraftParams(acceptance="most")  # type: ignore[arg-type]  # what a command line may say


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_in_the_round_loop(temperature: float) -> None:
    """Greedy text stays; above temperature 0 more is kept than the exact rule keeps."""
    kept = {}
    for acceptance in ("exact", "typical"):
        target = ToyTarget()
        target.tokens = [1, 2]
        loop = RoundLoop(
            target,
            DraftSetup(ScriptedDrafter(tree(toy_oracle())), AlwaysDraft(4), 20),
            GenerateRequest(
                raw_prompt="x",
                max_tokens=200,
                sampling=SamplingParams(temperature=temperature),
                drafting=DraftParams("always", 4, acceptance=acceptance),
            ),
            Streams(IndependentStream(1, "target"), IndependentStream(1, "draft")),
        )
        traces = [
            event
            for event in loop.run([1, 2, 3], ToyVocabulary(), lambda: False)
            if isinstance(event, RoundTrace)
        ]
        text = [token.token for trace in traces for token in trace.emitted]
        kept[acceptance] = sum(node.accepted for trace in traces for node in trace.proposed)
        if temperature == 0.0:
            assert text == greedy_text(toy_logits, [1, 2, 3], 200)
    if temperature == 0.0:
        assert kept["typical"] == kept["exact"]
    else:
        assert kept["typical"] > 1.2 * kept["exact"]


def test_the_json_of_a_changed_text_says_so() -> None:
    exact = Finished("", (), "eos", 1, 0, 0, Stats())
    assert not {"exact", "acceptance"} & exact.to_json().keys()
    typical = Finished("", (), "eos", 1, 0, 0, Stats(), exact=False)
    assert typical.to_json()["exact"] is False
    assert typical.to_json()["acceptance"] == "typical"
