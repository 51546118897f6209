"""Round traces in wire form."""

from __future__ import annotations

import json

from app.wire import WireEncoder, text_of
from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace
from tests.fakes_engine import MARKDOWN, script
from tests.tree_script import tree_script

SECONDS = RoundSeconds(0.1, 0.2, 0.0)


def proposed(text: str, depth: int, accepted: bool, drafter: str = "ngram") -> ProposedToken:
    return ProposedToken(1, text, depth - 2, depth, drafter, 0.123456, None, accepted)


def test_rejected_drafts_stand_where_they_were_tried() -> None:
    trace = RoundTrace(
        0,
        10,
        (proposed("a", 1, True), proposed("x", 2, False), proposed("y", 3, False)),
        (
            EmittedToken(1, "a", "accepted", "ngram", 0.5, None, 1),
            EmittedToken(2, "b", "correction", None, 0.25, None, None),
        ),
        SECONDS,
        False,
    )
    encoder = WireEncoder()
    first, second = encoder.encode(trace)
    assert first == ["a", "a", 0, 0.5, None, 1]
    assert second == [
        "b",
        "c",
        None,
        0.25,
        None,
        None,
        [["x", 0, 0.1235, None, 2], ["y", 0, 0.1235, None, 3, 0]],
    ]
    assert encoder.drafters == ["ngram"]


def test_branches_stay_in_one_piece_and_say_what_they_follow() -> None:
    tokens = [token for trace in tree_script() for token in WireEncoder().encode(trace)]
    shown = [[[ghost[0], *ghost[5:]] for ghost in token[6]] for token in tokens if len(token) > 6]
    assert shown == [
        [["Bushes"], [" grow", 0], [" tall", 1], [" stand", 0]],
        [[" were"]],
        [[" cut"], [" down", 0]],
    ]


def test_siblings_of_a_tree_stand_with_the_token_of_their_depth() -> None:
    trace = RoundTrace(
        0,
        0,
        (proposed("x", 1, False, "model:m"), proposed("a", 1, True), proposed("b", 2, True)),
        (
            EmittedToken(1, "a", "accepted", "ngram", 1.0, None, 1),
            EmittedToken(2, "b", "accepted", "ngram", 1.0, None, 2),
            EmittedToken(3, "c", "bonus", None, 1.0, None, None),
        ),
        SECONDS,
        False,
    )
    encoder = WireEncoder()
    tokens = encoder.encode(trace)
    assert [len(token) for token in tokens] == [7, 6, 6]
    assert encoder.drafters[tokens[0][6][0][1]] == "model:m"


def test_a_round_that_emits_nothing_gives_nothing() -> None:
    trace = RoundTrace(0, 0, (proposed("x", 1, False),), (), SECONDS, False)
    assert WireEncoder().encode(trace) == []


def test_wire_keeps_the_text_and_survives_json() -> None:
    encoder = WireEncoder()
    tokens = [token for trace in script(MARKDOWN) for token in encoder.encode(trace)]
    assert text_of(json.loads(json.dumps(tokens))) == MARKDOWN
    assert encoder.drafters and set(encoder.drafters) == {"ngram", "model:tiny-draft"}
