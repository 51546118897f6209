"""What is advised where drafting did not pay: the reason, and the step that changes most."""

from __future__ import annotations

from typing import Any

import pytest

from app.advice import Advice, next_step, speed_ups, why_not
from app.choices import Option


def reply(
    saved: float, *, high: float = 0.9, emitted: int = 90, why: str = "Too dear."
) -> dict[str, Any]:
    payoff = {"speed_up": 0.8, "low": 0.7, "high": high, "saved": saved, "plain": 0.1, "why": why}
    return {"payoff": payoff, "stats": {"emitted": emitted}}


def option(value: str, **more: Any) -> Option:
    return Option(
        value=value, label=value.upper(), detail="", group="Models that can draft", **more
    )


NGRAM, DRAFT = option("ngram"), option("model:draft", suggested=True)
LATER = option("model:later", suggested=True, reason="not downloaded", action="download:later")


def step(loaded: list[str], options: list[Option], known: dict[str, float]) -> Advice:
    return next_step("Too dear.", "target", loaded, options, known)


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ([], ""),
        ([reply(-1.0)], "Too dear."),
        ([reply(-1.0, emitted=39)], ""),
        ([reply(-1.0, high=1.1)], ""),
        ([reply(5.0, high=1.6, why=""), reply(-1.0)], ""),  # the chat as a whole gained
        ([reply(-1.0), reply(0.5, high=1.2, why="")], ""),
        ([reply(-1.0), {"stats": {"emitted": 300}}], "Too dear."),  # one from before
    ],
)
def test_a_whole_chat_is_judged(replies: list[dict[str, Any]], why: str) -> None:
    assert why_not(replies) == why


def test_what_drafters_brought_is_told_apart_by_target_and_drafter() -> None:
    about = {"model": "target", "drafters": ["ngram"]}
    replies = [reply(1.0) | about, reply(1.0) | {"model": "other", "drafters": ["model:draft"]}]
    assert speed_ups(replies, "target") == {"ngram": pytest.approx(0.8)}
    both = {"model": "target", "drafters": ["ngram", "model:draft"]}
    assert speed_ups([reply(1.0) | both, {"model": "target"}], "target") == {}


def test_the_step_is_what_is_known_to_pay_then_untried_then_download_then_off() -> None:
    everything = [NGRAM, DRAFT, LATER]
    known = step(["ngram"], everything, {"model:draft": 1.4})
    assert (known.step, known.value, known.expected) == ("drafter", "model:draft", 1.4)
    untried = step(["ngram"], everything, {})
    assert (untried.step, untried.value, untried.expected) == ("drafter", "model:draft", None)
    lost = step(["ngram"], everything, {"model:draft": 0.9})
    assert (lost.step, lost.value, lost.label) == ("download", "later", "MODEL:LATER")
    assert step(["ngram"], [NGRAM], {}).step == "off"
    assert (
        step(["ngram"], [NGRAM, option("model:big")], {}).step == "off"
    )  # not known to draft well
