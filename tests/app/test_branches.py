"""Versions of messages: nothing is lost, every page agrees, and the file stays a forest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.conversations import Conversations
from app.services import Application
from tests.app.page_side import Page


def texts(page: Page, conversation: int) -> list[str]:
    return [one["content"] for one in messages(page, conversation)]


def messages(page: Page, conversation: int) -> list[dict[str, Any]]:
    """As they are sent."""
    shown = json.loads(json.dumps(page.ask("open", conversation=conversation)["result"]))
    found: list[dict[str, Any]] = shown["messages"]
    return found


def begun(page: Page) -> int:
    conversation = page.send("hello")
    page.wait_for("end")
    return conversation


def test_a_reply_written_again_is_a_version_beside_the_first(page: Page) -> None:
    chat = begun(page)
    user, first = messages(page, chat)
    page.ask("regenerate", message=first["id"])
    page.wait_for("end", 2)
    user, second = messages(page, chat)
    assert second["versions"] == [first["id"], second["id"]] and second["parent"] == user["id"]
    kinds = [event for event in page.events() if event["k"] in ("after", "start")]
    assert kinds[-2:] == [
        {"k": "after", "m": user["id"], "c": chat},
        kinds[-1] | {"k": "start", "m": second["id"], "versions": second["versions"]},
    ]
    page.ask("select", message=first["id"])
    assert messages(page, chat)[1]["id"] == first["id"]
    assert page.events()[-1]["k"] == "changed"


def test_an_edited_message_keeps_the_old_one_with_all_that_followed(page: Page) -> None:
    chat = begun(page)
    page.send("go on", chat)
    page.wait_for("end", 2)
    before = messages(page, chat)
    page.ask("edit", message=before[0]["id"], text="hello, edited")
    page.wait_for("end", 3)
    after = messages(page, chat)
    assert [one["content"] for one in after[:-1]] == ["hello, edited"]
    page.ask("select", message=before[0]["id"])
    assert [one["id"] for one in messages(page, chat)] == [one["id"] for one in before]


def test_an_edited_reply_is_a_version_that_the_next_question_builds_on(page: Page) -> None:
    chat = begun(page)
    reply = messages(page, chat)[1]
    assert "error" not in page.ask("edit_reply", message=reply["id"], text="as I want it")
    assert texts(page, chat) == ["hello", "as I want it"]
    page.send("go on", chat)
    page.wait_for("end", 2)
    assert len(messages(page, chat)) == 4
    refused = page.ask("edit_reply", message=messages(page, chat)[0]["id"], text="x")
    assert "message of yours" in refused["error"]["message"]
    page.ask("edit_reply", message=messages(page, chat)[1]["id"], text="as I want it")
    assert len(messages(page, chat)) == 4  # nothing was changed, so nothing is made


def test_deleting_takes_what_follows_and_can_be_undone(page: Page) -> None:
    chat = begun(page)
    page.send("go on", chat)
    page.wait_for("end", 2)
    before = messages(page, chat)
    assert page.ask("subtree", message=before[1]["id"])["result"] == {"messages": 3}
    assert page.ask("delete_message", message=before[1]["id"])["result"] == {"messages": 3}
    assert texts(page, chat) == ["hello"]
    assert "gone" in page.ask("delete_message", message=before[1]["id"])["error"]["message"]
    assert "error" not in page.ask("restore_message", message=before[1]["id"])
    assert messages(page, chat) == before
    assert "error" in page.ask("restore_message", message=before[1]["id"])


def test_deleting_a_version_shows_another_one(page: Page) -> None:
    chat = begun(page)
    first = messages(page, chat)[1]
    page.ask("regenerate", message=first["id"])
    page.wait_for("end", 2)
    second = messages(page, chat)[1]
    page.ask("delete_message", message=second["id"])
    assert messages(page, chat)[1]["id"] == first["id"]
    page.ask("delete_message", message=messages(page, chat)[0]["id"])
    assert messages(page, chat) == []
    assert "error" not in page.ask("send", conversation=chat, text="anew")


def test_deleting_what_is_being_written_stops_it(page: Page) -> None:
    chat = page.send("tell me slowly, 2000 tokens of it")
    page.wait_for("tok")
    reply = messages(page, chat)[1]
    assert page.ask("delete_message", message=reply["id"])["result"] == {"messages": 1}
    page.wait_for("end")
    assert texts(page, chat) == ["tell me slowly, 2000 tokens of it"]
    page.ask("restore_message", message=reply["id"])
    assert messages(page, chat)[1]["details"]["finish"] == "cancelled"


def test_another_version_can_be_looked_at_while_one_is_written(page: Page) -> None:
    chat = begun(page)
    user, first = messages(page, chat)
    page.ask("edit", message=user["id"], text="slowly, 2000 tokens")
    page.wait_for("tok", 3)
    page.ask("select", message=user["id"])
    shown = page.ask("open", conversation=chat)["result"]
    assert [one["id"] for one in shown["messages"]] == [user["id"], first["id"]]
    assert shown["writing"] is not None and shown["writing"] != first["id"]
    assert "still being written" in page.ask("regenerate", message=first["id"])["error"]["message"]
    page.ask("stop", conversation=chat)
    page.wait_for("end", 2)
    assert page.ask("open", conversation=chat)["result"]["writing"] is None


def test_a_fork_is_a_chat_of_its_own(page: Page, application: Application) -> None:
    chat = begun(page)
    page.send("go on", chat)
    page.wait_for("end", 2)
    reply = messages(page, chat)[1]
    made = page.ask("fork", message=reply["id"])["result"]["conversation"]
    assert texts(page, made) == texts(page, chat)[:2]
    copied = messages(page, made)[1]
    assert (copied["tokens"], copied["details"]) == (reply["tokens"], reply["details"])
    page.ask("delete", conversation=chat)
    assert len(texts(page, made)) == 2


def test_versions_are_compared_with_their_figures(page: Page) -> None:
    chat = begun(page)
    page.ask("regenerate", message=messages(page, chat)[1]["id"])
    page.wait_for("end", 2)
    reply = messages(page, chat)[1]
    found = page.ask("versions", message=reply["id"])["result"]["versions"]
    assert [one["id"] for one in found] == reply["versions"]
    assert all(one["details"]["stats"]["emitted"] == 20 and one["content"] for one in found)


def test_each_role_is_changed_in_its_own_way(page: Page) -> None:
    chat = begun(page)
    user, reply = messages(page, chat)
    assert "is a reply" in page.ask("edit", message=reply["id"], text="x")["error"]["message"]
    assert "of yours" in page.ask("regenerate", message=user["id"])["error"]["message"]
    assert messages(page, chat) == [user, reply]


@pytest.mark.parametrize(
    "action", ["select", "versions", "subtree", "delete_message", "restore_message", "fork"]
)
def test_a_message_that_is_not_there_is_said_to_be_gone(page: Page, action: str) -> None:
    assert "gone" in page.ask(action, message=12345)["error"]["message"]


def test_hundreds_of_versions_and_thousands_of_messages(tmp_path: Path) -> None:
    store = Conversations(tmp_path / "c.sqlite3")
    with store.atomic():
        chat = store.create("x").id
        first = store.add_user(chat, "question")
        for number in range(500):
            store.save_reply(store.start_reply(chat, first), f"r{number}", [], {}, False)
        for number in range(2000):
            store.add_user(chat, str(number))
    shown = store.messages(chat)
    assert len(shown) == 2002 and len(shown[1].versions) == 500
    store.select(shown[1].versions[0])
    assert [one.content for one in store.messages(chat)] == ["question", "r0"]
    assert store.texts_of_others(-1, 10**6) == ("question", "r0")
    assert store.recent_prompts(10) == ("question",)
    store.close()
