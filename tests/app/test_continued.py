"""Replies that go on, and versions from a rejected draft on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.conversations import Conversations
from app.replies import LiveReply
from app.services import Application
from app.token_ids import parsed_ids
from engine.data.events import PromptProgress
from engine.data.request import LoadRequest
from tests.app.page_side import Page
from tests.fakes_engine import MARKDOWN, FakeEngine, script, tokens_of
from tests.tree_script import TREE


def reply(page: Page, conversation: int) -> dict[str, Any]:
    """As it is sent."""
    shown = json.loads(json.dumps(page.ask("open", conversation=conversation)["result"]))
    last: dict[str, Any] = shown["messages"][-1]
    return last


def refused(page: Page, action: str, **arguments: Any) -> str:
    return str(page.ask(action, **arguments)["error"]["message"])


def begun(page: Page, text: str = "hello, early, 60 tokens") -> tuple[int, dict[str, Any]]:
    conversation = page.send(text)
    page.wait_for("end")
    return conversation, reply(page, conversation)


def words(message: dict[str, Any]) -> list[str]:
    return [token[0] for token in message["tokens"]]


def test_a_reply_grows_in_its_own_message(page: Page, engine: FakeEngine) -> None:
    chat, half = begun(page)
    assert half["details"]["finish"] == "length" and half["has_ids"]
    assert "error" not in page.ask("continue", message=half["id"])
    page.wait_for("end", 2)
    (resumed,) = page.wait_for("resume")
    assert resumed["m"] == half["id"]
    whole = reply(page, chat)
    assert whole["id"] == half["id"] and whole["versions"] == [half["id"]]
    assert len(whole["tokens"]) == 60
    assert whole["tokens"][: len(half["tokens"])] == half["tokens"]
    assert whole["content"] == "".join(words(whole))
    later = [one for one in page.events() if one["k"] == "tok" and one["at"] >= len(half["tokens"])]
    assert sum(len(one["add"]) for one in later) == 60 - len(half["tokens"])
    asked = engine.requests[-1]
    assert len(asked.continuation) == len(half["tokens"])
    assert asked.vocabulary == "of starter"
    assert asked.sampling.seed == half["details"]["seed"]
    assert whole["details"]["finish"] == "eos"


def test_its_figures_count_both_parts(page: Page) -> None:
    chat, half = begun(page)
    page.ask("continue", message=half["id"])
    page.wait_for("end", 2)
    first, both = half["details"], reply(page, chat)["details"]
    assert both["stats"]["emitted"] == 60 == sum(times[0] for times in both["rounds"])
    assert both["stats"]["rounds"] == len(both["rounds"]) > first["stats"]["rounds"]
    assert both["stats"]["decode_seconds"] > first["stats"]["decode_seconds"]
    assert both["rounds"][: len(first["rounds"])] == first["rounds"]
    assert both["payoff"]["plain"] == pytest.approx(first["payoff"]["plain"], rel=0.2)
    assert both["payoff"]["speed_up"] is not None
    assert both["notices"] == [] and both["prompt_tokens"] == 52


def test_stopped_and_continued_twice(page: Page) -> None:
    chat = page.send("slowly, 40 tokens")
    for round_ in range(1, 3):
        page.wait_for("tok", 2 * round_)
        page.ask("stop", conversation=chat)
        page.wait_for("end", round_)
        half = reply(page, chat)
        assert half["details"]["finish"] == "cancelled"
        assert "error" not in page.ask("continue", message=half["id"])
    page.wait_for("end", 3)
    whole = reply(page, chat)
    assert len(whole["tokens"]) == 40 == whole["details"]["stats"]["emitted"]
    assert words(whole) == tokens_of(MARKDOWN)[:40]


def test_it_goes_on_inside_its_thought(page: Page) -> None:
    chat, half = begun(page, "ponder early")
    thought = half["details"]["reasoning"]
    page.ask("continue", message=half["id"])
    page.wait_for("end", 2)
    whole = reply(page, chat)
    assert whole["details"]["reasoning"]["from"] == thought["from"]
    assert whole["details"]["reasoning"]["to"] >= thought["to"]
    assert whole["details"]["reasoning"]["seconds"] >= thought["seconds"]


def test_what_cannot_go_on_says_why(page: Page, application: Application) -> None:
    chat, half = begun(page)
    user = half["parent"]
    assert "only a reply" in refused(page, "continue", message=user)
    page.ask("regenerate", message=half["id"])
    page.wait_for("end", 2)
    assert "only the last" in refused(page, "continue", message=half["id"])
    page.ask("select", message=half["id"])
    page.ask("continue", message=half["id"])
    page.wait_for("end", 3)
    assert "its own end" in refused(page, "continue", message=half["id"])
    page.ask("edit_reply", message=half["id"], text="mine")
    edited = reply(page, chat)
    assert not edited["has_ids"]
    assert "not kept" in refused(page, "continue", message=edited["id"])
    slow = page.send("slowly, early, 90 tokens")
    page.wait_for("tok", 6)
    message = reply(page, slow)["id"]
    assert "still being written" in refused(page, "continue", message=message)
    page.ask("stop", conversation=slow)


def test_another_vocabulary_is_refused(page: Page, engine: FakeEngine) -> None:
    _, half = begun(page)
    engine.load(LoadRequest("other"))
    message = refused(page, "continue", message=half["id"])
    assert "another vocabulary" in message and "starter" in message


def test_a_reply_that_could_not_go_on_stays_as_it_was(page: Page, engine: FakeEngine) -> None:
    chat = page.send("hello, early, 60 tokens")
    page.wait_for("end")
    half = reply(page, chat)
    user = half["parent"]
    store = page.services.chat.branches._store
    store.change("update messages set content = 'too long' where id = ?", user)
    page.ask("continue", message=half["id"])
    page.wait_for("end", 2)
    after = reply(page, chat)
    assert after["tokens"] == half["tokens"]
    assert after["details"]["finish"] == "length" and "error" not in after["details"]
    assert "could not go on" in after["details"]["notices"][-1]


def test_a_version_from_a_rejected_draft_on(page: Page, engine: FakeEngine) -> None:
    chat, first = begun(page, "branches")
    at, ghosts = next((n, one[6]) for n, one in enumerate(first["tokens"]) if len(one) > 6)
    place = next(n for n, one in enumerate(ghosts) if len(one) > 5)
    answer = page.ask("branch", message=first["id"], token=at, ghost=place)
    assert "error" not in answer, answer
    page.wait_for("end", 2)
    other = reply(page, chat)
    assert other["versions"] == [first["id"], other["id"]]
    chain = [ghosts[ghosts[place][5]][0], ghosts[place][0]]
    assert words(other)[: at + 2] == [*words(first)[:at], *chain]
    asked = engine.requests[-1].continuation
    texts = [text for text, _, _ in TREE]
    assert [texts[one] for one in asked[at:]] == chain
    assert sum(times[0] for times in other["details"]["rounds"]) == len(other["tokens"])
    assert "not there" in refused(page, "branch", message=first["id"], token=at, ghost=99)
    for number in (9999, -1):
        answer = page.ask("branch", message=first["id"], token=number, ghost=0)
        assert "error" in answer


def test_every_ghost_of_a_long_reply_makes_the_version_it_names(
    page: Page, engine: FakeEngine
) -> None:
    _, first = begun(page, "hello, 30 tokens")
    page.ask("regenerate", message=first["id"])
    made = 2
    page.wait_for("end", made)
    tried = [
        (at, number)
        for at, token in enumerate(first["tokens"])
        for number in range(len(token[6]) if len(token) > 6 else 0)
    ]
    for at, number in tried[:12]:
        assert "error" not in page.ask("branch", message=first["id"], token=at, ghost=number)
        made += 1
        page.wait_for("end", made)
        ids = engine.requests[-1].continuation
        ghosts = first["tokens"][at][6]
        steps, one = 0, number
        while True:
            steps += 1
            if len(ghosts[one]) < 6:
                break
            one = ghosts[one][5]
        assert len(ids) == at + steps


@pytest.mark.parametrize(
    "name", ["stats", "rounds", "copied", "reasoning", "payoff", "prompt_tokens", "seed"]
)
def test_damaged_details_cost_what_was_in_them(page: Page, name: str) -> None:
    chat, half = begun(page)
    store = page.services.chat.branches._store
    damaged = json.dumps(half["details"] | {name: {"from": "x", "rounds": [[1, "x"]]}})
    store.change("update messages set details = ? where id = ?", damaged, half["id"])
    page.ask("continue", message=half["id"])
    page.wait_for("end", 2)
    assert len(reply(page, chat)["tokens"]) == 60


def test_ids_outlive_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    store = Conversations(path)
    chat = store.create("hello").id
    store.add_user(chat, "hello")
    reply = LiveReply(store.start_reply(chat), chat, store, "Tiny")
    reply.take(PromptProgress(0, 9, 0, "v"))
    for trace in script("Hello there, you", 3):
        reply.take(trace)
    reply.save()
    store.close()
    again = Conversations(path)
    (_, stored) = again.messages(chat)
    assert stored.details["finish"] == "interrupted" and stored.has_ids
    ids = parsed_ids(again.ids_of(stored.id), len(stored.tokens))
    assert ids == reply.ids and len(reply.ids.tokens) == 3
    again.close()


def test_two_pages_see_the_same(page: Page, application: Application) -> None:
    chat, half = begun(page)
    other = Page(application)
    other.ask("open", conversation=chat)
    page.ask("continue", message=half["id"])
    page.wait_for("end", 2)
    other.wait_for("end")
    kinds = [event["k"] for event in other.events() if event["k"] in ("start", "resume", "tok")]
    assert kinds[0] == "resume" and set(kinds[1:]) == {"tok"}
    first = next(event for event in other.events() if event["k"] == "tok")
    assert first["at"] == len(half["tokens"])


@pytest.mark.parametrize(
    "stored",
    [
        "{}",
        "not json",
        "[]",
        '{"vocabulary": "v", "tokens": [1], "rejected": {}}',
        '{"vocabulary": "v", "tokens": [1, -2], "rejected": {}}',
        '{"vocabulary": "v", "tokens": [1, true], "rejected": {}}',
        '{"vocabulary": 3, "tokens": [1, 2], "rejected": {}}',
        '{"vocabulary": "v", "tokens": [1, 2], "rejected": {"0": "x"}}',
    ],
)
def test_damaged_ids_are_none(stored: str) -> None:
    assert parsed_ids(stored, 2) is None
