"""The published JSON of a trace line and of a finished reply, and the trip between processes."""

from __future__ import annotations

import json
import pickle

import pytest

from engine.data.events import Finished, Notice, PromptProgress, Queued, RunEvent
from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace
from engine.data.stats import DrafterCount, Stats

TRACE = RoundTrace(
    round=3,
    position=41,
    proposed=(
        ProposedToken(262, " the", -1, 1, "model:half", 0.75, 0.5, True),
        ProposedToken(90, "é", 0, 2, "ngram", 0.125, None, False),
    ),
    emitted=(
        EmittedToken(262, " the", "accepted", "model:half", 0.75, 0.5, 1),
        EmittedToken(17, "", "correction", None, 0.25, None, None),
    ),
    seconds=RoundSeconds(draft=0.25, target=0.5, other=0.125),
    parked=False,
)
FINISHED = Finished(
    text=" the café",
    tokens=(262, 17),
    finish="length",
    prompt_tokens=41,
    reused_prompt_tokens=40,
    seed=1234,
    stats=Stats(emitted=2, rounds=1, by_drafter={"ngram": DrafterCount(1, 0)}),
)
EVENTS: list[RunEvent] = [
    Queued(place=1),
    PromptProgress(done=3, total=41, reused=0),
    TRACE,
    Notice(message="the drafter was dropped"),
    FINISHED,
]


def test_a_trace_line_is_the_published_object() -> None:
    line = json.dumps(TRACE.to_json(), ensure_ascii=False)
    assert "\n" not in line
    assert json.loads(line) == {
        "round": 3,
        "position": 41,
        "proposed": [
            {
                "token": 262,
                "text": " the",
                "parent": -1,
                "drafter": "model:half",
                "p": 0.75,
                "q": 0.5,
                "accepted": True,
            },
            {
                "token": 90,
                "text": "é",
                "parent": 0,
                "drafter": "ngram",
                "p": 0.125,
                "q": None,
                "accepted": False,
            },
        ],
        "emitted": [
            {
                "token": 262,
                "text": " the",
                "kind": "accepted",
                "drafter": "model:half",
                "p": 0.75,
                "q": 0.5,
                "depth": 1,
            },
            {
                "token": 17,
                "text": "",
                "kind": "correction",
                "drafter": None,
                "p": 0.25,
                "q": None,
                "depth": None,
            },
        ],
        "seconds": {"draft": 0.25, "target": 0.5, "other": 0.125},
        "parked": False,
    }


def test_a_finished_reply_is_the_published_object() -> None:
    reply = json.loads(json.dumps(FINISHED.to_json()))
    assert list(reply) == [
        "text",
        "tokens",
        "finish",
        "prompt_tokens",
        "reused_prompt_tokens",
        "seed",
        "stats",
    ]
    assert reply["tokens"] == [262, 17]
    assert reply["finish"] == "length"
    assert reply["stats"] == FINISHED.stats.to_json()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_cross_the_process_boundary_unchanged(event: RunEvent) -> None:
    assert pickle.loads(pickle.dumps(event)) == event


def test_the_seconds_of_a_round_add_up() -> None:
    assert TRACE.seconds.total == 0.875
