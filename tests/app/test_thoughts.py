"""Thoughts on the page's side: apart in what is stored, in events and in the history."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from app.conversations import Conversations
from app.replies import LiveReply
from app.settings import settings_from_json
from app.thoughts import LiveThought, answer_of, thought_of
from engine.data.reasoning import Reasoning, ThoughtMarkers
from engine.data.request import Message
from engine.data.rounds import EmittedToken, RoundSeconds, RoundTrace
from tests.app.page_side import Page
from tests.fakes_engine import REASONING, THOUGHT, FakeEngine, thinking_script

TOKENS: list[Any] = [[text, "p", None, 1.0, None, None] for text in ("", "why", "", "Yes", "!")]


def test_the_answer_is_stored_and_the_thought_is_its_tokens(page: Page) -> None:
    conversation = page.send("ponder hello")
    end = page.wait_for("end")[-1]
    reasoning = end["details"]["reasoning"]
    assert reasoning["from"] == 0
    assert reasoning["seconds"] > 0
    chat = page.ask("open", conversation=conversation)["result"]
    stored = chat["messages"][-1]
    text = "".join(token[0] for token in stored["tokens"][reasoning["to"] :])
    assert stored["content"] == text
    assert thought_of(stored["tokens"], stored["details"]) == THOUGHT
    told = [one for one in page.wait_for("tok") if "reasoning" in one]
    assert told[-1]["reasoning"] == reasoning
    assert all(one["at"] < reasoning["to"] for one in told)


def test_the_history_has_thoughts_as_a_field(page: Page, engine: FakeEngine) -> None:
    conversation = page.send("ponder hello")
    page.wait_for("end")
    page.send("and now?", conversation)
    page.wait_for("end", 2)
    said = engine.requests[-1].messages[1]
    assert said.role == "assistant"
    assert said.reasoning == THOUGHT
    assert "write" not in said.content
    page.send("once more", conversation)
    page.wait_for("end", 3)
    assert engine.requests[-1].messages[3].reasoning is None


def test_a_reply_that_ends_in_its_thought_has_no_answer(tmp_path: Path) -> None:
    store = Conversations(tmp_path / "chats.sqlite")
    conversation = store.create("hello").id
    reply = LiveReply(store.start_reply(conversation), conversation, store, "Tiny")
    for trace in islice(thinking_script("hello"), 3):
        event = reply.take(trace) or {}
        assert event["reasoning"]["to"] == event["at"] + len(event["add"])
    reply.end("cancelled")
    (stored,) = store.messages(conversation)
    assert stored.content == ""
    assert stored.details["reasoning"]["to"] == len(stored.tokens)
    store.close()


def test_a_reply_without_thoughts_says_nothing_of_them(tmp_path: Path) -> None:
    store = Conversations(tmp_path / "chats.sqlite")
    conversation = store.create("hello").id
    reply = LiveReply(store.start_reply(conversation), conversation, store, "Tiny")
    emitted = EmittedToken(1, "Hi", "plain", None, 1.0, None, None)
    trace = RoundTrace(1, 1, (), (emitted,), RoundSeconds(0.0, 0.1, 0.0), False)
    assert "reasoning" not in (reply.take(trace) or {})
    assert "reasoning" not in reply.end("eos")["details"]
    store.close()


def test_the_user_ends_the_thought(page: Page, engine: FakeEngine) -> None:
    """At once, wherever the reply is: the run may not be there yet, too."""
    conversation = page.send("ponder hello, slowly")
    assert page.ask("answer_now", conversation=conversation)["result"] is None
    end = page.wait_for("end")[-1]
    reasoning = end["details"]["reasoning"]
    assert reasoning["ended"] == "asked"
    (stored,) = page.ask("open", conversation=conversation)["result"]["messages"][1:]
    given = stored["tokens"][reasoning["to"] - 3 : reasoning["to"]]
    assert given == [["", "p", None, None, None, None]] * 3
    assert (thought_of(stored["tokens"], stored["details"]) or "") != THOUGHT
    page.ask("answer_now", conversation=conversation)  # nothing is written any more
    page.ask("answer_now", conversation=12345)


def told_of(*tokens: tuple[str, bool], is_asked: bool = False) -> Any:
    """`ended` after a thought of such tokens: text, and whether it was given."""
    thought, told = LiveThought(), None
    thought.is_asked = is_asked
    for text, forced in tokens:
        emitted = EmittedToken(1, text, "plain", None, 1.0, None, None, "thought", forced=forced)
        told = thought.add(RoundTrace(1, 1, (), (emitted,), RoundSeconds(0.0, 0.1, 0.0), False))
    return (told or {}).get("ended")


def test_what_ended_a_thought() -> None:
    assert told_of(("so", False), ("", False)) is None
    assert told_of(("so", False), ("", False), is_asked=True) is None
    assert told_of(("so", False), ("", True), ("", True)) == "budget"
    assert told_of(("so", False), ("", True), ("\n\n", False)) == "budget"
    assert told_of(("so", False), ("", True), is_asked=True) == "asked"
    assert told_of(("so", False), ("", True), ("on", False), ("", False)) is None


@pytest.mark.parametrize(
    "kept",
    [None, 3, {}, {"from": 0}, {"from": "0", "to": 2}, {"from": 2, "to": 1}, {"from": 0, "to": 9}],
)
def test_a_damaged_range_hides_nothing(kept: Any) -> None:
    assert answer_of(TOKENS, {"reasoning": kept}) == "whyYes!"
    assert thought_of(TOKENS, {"reasoning": kept}) is None


def test_a_range() -> None:
    details = {"reasoning": {"from": 0, "to": 3, "seconds": 1.0}}
    assert answer_of(TOKENS, details) == "Yes!"
    assert thought_of(TOKENS, details) == "why"


def test_a_template_is_asked_for_what_it_has() -> None:
    settings = settings_from_json({"thinking": "off", "effort": "high"})
    asked = (Message("user", "hello"),)
    told = settings.generate_request(asked, (), REASONING)
    assert (told.thinking, told.effort) == ("off", "high")
    bare = Reasoning(ThoughtMarkers(("<think>",), ("</think>",)))
    for reasoning in (None, bare):
        told = settings.generate_request(asked, (), reasoning)
        assert (told.thinking, told.effort) == (None, None)
    other = settings_from_json({"effort": "medium"}).generate_request(asked, (), REASONING)
    assert (other.thinking, other.effort) == (None, None)
