"""What the page asks, without a page: the whole interface with the scripted engine."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from app.services import Application
from engine.data.errors import RunError
from engine.data.folders import DataFolder
from engine.data.request import GenerateRequest, Message
from engine.data.rounds import RoundTrace
from tests.app.page_side import WAIT, Page
from tests.fakes_engine import FakeEngine, FakeRun, script
from tests.fakes_models import FakeDownloads, FakeModels


def test_start_loads_the_starter_with_ngram(page: Page, engine: FakeEngine) -> None:
    assert [(load.target, load.drafter) for load in engine.loads] == [("starter", "ngram")]
    assert page.hello["engine"]["loaded"]["target"]["id"] == "starter"
    assert page.hello["engine"]["loaded_pair"] == {"target": "starter", "drafters": ["ngram"]}
    assert page.hello["preferences"]["target"] == "starter"


def test_a_reply_arrives_and_is_stored(page: Page, application: Application) -> None:
    conversation = page.send("hello")
    (end,) = page.wait_for("end")
    tokens = [token for event in page.events() if event["k"] == "tok" for token in event["add"]]
    assert "".join(token[0] for token in tokens).startswith("Hello! This is")
    assert end["details"]["finish"] == "eos" and end["details"]["stats"]["emitted"] == len(tokens)
    opened = page.ask("open", conversation=conversation)["result"]
    user, reply = opened["messages"]
    assert (user["role"], user["content"]) == ("user", "hello")
    assert reply["tokens"] == tokens and reply["details"]["seed"] == 4711
    assert opened["seq"] == len(page.events())


def test_history_joins_what_a_failed_reply_left(page: Page, engine: FakeEngine) -> None:
    engine.pace = 0.01
    conversation = page.send("one")
    page.ask("stop", conversation=conversation)
    page.wait_for("end")
    engine.pace = None
    page.send("hello", conversation)
    page.wait_for("end", 2)
    assert engine.requests[-1].messages == (Message("user", "one\n\nhello"),)


def test_other_chats_are_copied_from_only_if_the_user_says_so(
    page: Page, engine: FakeEngine
) -> None:
    page.send("a recipe")
    page.wait_for("end")
    page.send("hello")
    page.wait_for("end", 2)
    assert engine.requests[-1].copy_from == ()
    page.ask("settings", changes={"earlier_chats": "on"})
    page.send("hello again")
    page.wait_for("end", 3)
    told = engine.requests[-1]
    assert {"a recipe", "hello"} < set(told.copy_from) and "hello again" not in told.copy_from
    assert told.messages == (Message("user", "hello again"),)


def test_a_message_refused_as_too_long_is_not_sent_again(page: Page, engine: FakeEngine) -> None:
    conversation = page.send("hello")
    page.wait_for("end")
    page.send("too long", conversation)
    _, refused = page.wait_for("end", 2)
    page.send("shorter", conversation)
    page.wait_for("end", 3)
    sent = engine.requests[-1].messages
    assert [message.role for message in sent] == ["user", "assistant", "user"]
    assert sent[-1] == Message("user", "shorter")
    page.ask("regenerate", message=refused["m"])
    page.wait_for("end", 4)
    assert engine.requests[-1].messages[-1] == Message("user", "too long")


def test_a_load_while_a_reply_is_written_says_that_it_waits(page: Page, engine: FakeEngine) -> None:
    engine.pace = 50
    conversation = page.send("3000 tokens")
    page.wait_for("tok")
    page.ask("load", target="starter", drafters=[])
    first = next(event for event in page.wait_for("engine") if event["progress"])
    assert "waits until the reply is complete" in first["progress"]["label"]
    page.ask("stop", conversation=conversation)
    page.wait_for("end")


def test_an_error_stays_with_the_reply(page: Page) -> None:
    conversation = page.send("too long")
    (end,) = page.wait_for("end")
    assert end["details"]["error"]["kind"] == "ContextLengthError"
    reply = page.ask("open", conversation=conversation)["result"]["messages"][1]
    assert reply["details"]["finish"] == "failed" and not reply["streaming"]


def test_a_dead_engine_keeps_the_partial_reply(page: Page) -> None:
    conversation = page.send("please die")
    (end,) = page.wait_for("end")
    assert end["details"]["error"]["kind"] == "EngineDiedError"
    reply = page.ask("open", conversation=conversation)["result"]["messages"][1]
    assert len(reply["tokens"]) > 30


def test_stop_regenerate_and_edit(page: Page, engine: FakeEngine) -> None:
    engine.pace = 50
    conversation = page.send("3000 tokens")
    page.wait_for("tok")
    page.ask("stop", conversation=conversation)
    (end,) = page.wait_for("end")
    assert end["details"]["finish"] == "cancelled"
    engine.pace = None
    messages = page.ask("open", conversation=conversation)["result"]["messages"]
    page.ask("regenerate", message=messages[1]["id"])
    page.wait_for("end", 2)
    page.ask("edit", message=messages[0]["id"], text="hello 5 tokens")
    page.wait_for("end", 3)
    messages = page.ask("open", conversation=conversation)["result"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[0]["content"] == "hello 5 tokens" and len(messages[1]["tokens"]) == 5


def test_one_reply_at_a_time_in_a_conversation(page: Page, engine: FakeEngine) -> None:
    engine.pace = 20
    conversation = page.send("3000 tokens")
    page.wait_for("tok")
    answer = page.ask("send", conversation=conversation, text="more")
    assert "still being written" in answer["error"]["message"]
    page.ask("stop", conversation=conversation)
    page.wait_for("end")


def test_a_closed_page_stops_its_run(page: Page, engine: FakeEngine) -> None:
    engine.pace = 20
    conversation = page.send("3000 tokens")
    page.wait_for("tok")
    session = page.services.sessions.get(page.session)
    assert session is not None
    page.services.chat.leave(session)
    other = Page.__new__(Page)
    other.handlers, other.services = page.handlers, page.services
    other.session = page.handlers.hello({"conversation": conversation})["session"]
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        reply = other.ask("open", conversation=conversation)["result"]["messages"][1]
        if not reply["streaming"]:
            break
    assert reply["details"]["finish"] == "cancelled" and reply["tokens"]


def test_a_second_page_sees_the_reply_from_where_it_came_in(
    page: Page, application: Application, engine: FakeEngine
) -> None:
    engine.pace = 100
    conversation = page.send("60 tokens")
    page.wait_for("tok", 3)
    other = Page(application)
    opened = other.ask("open", conversation=conversation)["result"]
    known = opened["messages"][1]["tokens"]
    page.wait_for("end")
    added = [
        event for number, event in enumerate(other.events()) if number >= opened["seq"]
        and event["k"] == "tok"
    ]  # fmt: skip
    assert added[0]["at"] == len(known)
    assert len(known) + sum(len(event["add"]) for event in added) == 60


def test_loading_reports_progress_and_failure_keeps_the_old(page: Page) -> None:
    page.ask("load", target="broken", drafters=[])
    page.services.loading.wait(WAIT)
    states = page.wait_for("engine")
    assert any(state["progress"] and state["progress"]["fraction"] == 1 for state in states)
    assert states[-1]["error"]["kind"] == "ModelFileError"
    assert states[-1]["loaded"]["target"]["id"] == "starter"
    assert page.services.preferences.current.target == "starter"


def test_a_new_load_keeps_the_chosen_order(page: Page, engine: FakeEngine) -> None:
    page.ask("settings", changes={"context_length": 512, "numerics": "strict"})
    page.ask("load", target="starter", drafters=["model:tiny-draft", "ngram"])
    page.services.loading.wait(WAIT)
    load = engine.loads[-1]
    assert load.drafter == "first(model:tiny-draft,ngram)"
    assert (load.context_length, load.numerics) == (512, "strict")
    assert page.services.preferences.current.drafters == ("model:tiny-draft", "ngram")


def test_nothing_loaded_is_told(tmp_path: Path) -> None:
    application = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    page = Page(application)
    answer = page.ask("send", conversation=None, text="hello")
    assert "no model is loaded" in answer["error"]["message"]
    assert page.hello["engine"]["loaded"] is None
    application.close()


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (None, "SessionLost"),
        ({"session": "guessed", "action": "open"}, "SessionLost"),
        ({"action": "no such"}, "BadRequest"),
        ({"action": "open"}, "BadRequest"),
        ({"action": "open", "arguments": {"conversation": "x; drop"}}, "BadRequest"),
        ({"action": "send", "arguments": {"conversation": None, "text": "  "}}, "BadOptionError"),
        ({"action": "regenerate", "arguments": {"message": 999}}, "BadOptionError"),
        ({"action": "load", "arguments": {"target": "", "drafters": []}}, "BadOptionError"),
        ({"action": "settings", "arguments": {"changes": {"x": 1}}}, "BadOptionError"),
        ({"action": "download", "arguments": {"id": "a", "step": "boom"}}, "BadRequest"),
    ],
)
def test_malformed_requests_get_an_error(page: Page, payload: Any, kind: str) -> None:
    if isinstance(payload, dict):
        payload = {"session": page.session} | payload
    assert page.handlers.call(payload)["error"]["kind"] == kind


def test_downloads_are_announced(page: Page) -> None:
    page.ask("fetch", model="large")
    rows = page.wait_for("downloads")[-1]["items"]
    assert rows[0]["id"] == "large" and rows[0]["bytes"] * 2 == rows[0]["total"]
    page.ask("download", id="large", step="cancel")
    assert page.wait_for("downloads", 2)[-1]["items"][0]["state"] == "cancelled"
    files = page.ask("repository", repository="owner/repo")["result"]
    assert [file["quant"] for file in files] == ["Q4_K_M", "Q8_0"]
    assert page.ask("repository", repository="x/y")["error"]["kind"] == "DownloadError"


class CrashingEngine(FakeEngine):
    """Raises a run's error in the middle of the stream."""

    def generate(self, request: GenerateRequest) -> FakeRun:
        run = FakeRun()
        for trace in script("some words that come before the end", None):
            assert isinstance(trace, RoundTrace)
            run.put(trace)
        run.put(RunError("llama_decode returned -3"))
        return run


def test_a_failing_run_keeps_tokens_and_frees_the_conversation(tmp_path: Path) -> None:
    application = Application(CrashingEngine(), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    application.load_last()
    application.services.loading.wait(WAIT)
    page = Page(application)
    conversation = page.send("x")
    page.wait_for("end")
    assert "error" not in page.ask("send", conversation=conversation, text="again")
    page.wait_for("end", 2)
    reply = page.ask("open", conversation=conversation)["result"]["messages"][1]
    assert reply["details"]["error"]["message"] == "llama_decode returned -3"
    assert reply["content"] == "some words that come before the end"
    application.close()


def test_a_chat_that_is_gone_is_neither_restored_nor_renamed(page: Page) -> None:
    assert "is gone" in page.ask("restore", conversation=77)["error"]["message"]
    assert "is gone" in page.ask("rename", conversation=77, title="x")["error"]["message"]


def test_a_full_disk_is_told_and_blocks_nothing(tmp_path: Path) -> None:
    application = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    application.load_last()
    application.services.loading.wait(WAIT)
    page = Page(application)
    conversation = page.send("hello")
    page.wait_for("end")
    with sqlite3.connect(tmp_path / "conversations.sqlite3") as other:
        other.execute(
            "create trigger full before update on messages"
            " begin select raise(abort, 'database or disk is full'); end"
        )
    other.close()
    page.ask("send", conversation=conversation, text="again")
    end = page.wait_for("end", 2)[-1]
    assert end["details"]["unsaved"].startswith("database or disk is full")
    refused = page.ask("send", conversation=conversation, text="and again")["error"]["message"]
    assert "could not be saved yet" in refused
    page.send("in another chat")
    page.wait_for("end", 1)
    opened = page.ask("open", conversation=conversation)["result"]
    assert not any(message["streaming"] for message in opened["messages"])
    application.close()


def test_preferences_that_cannot_be_written_are_told(page: Page, tmp_path: Path) -> None:
    (tmp_path / "preferences.json").unlink(missing_ok=True)
    (tmp_path / "preferences.json" / "in the way").mkdir(parents=True)
    assert page.ask("view", changes={"theme": "dark"})["error"]["kind"] == "StorageError"
    page.ask("load", target="starter", drafters=[])
    page.services.loading.wait(WAIT)
    state = page.services.loading.state()
    assert state["error"]["kind"] == "StorageError" and state["loaded"] is not None


def test_model_folders_are_added_and_forgotten(page: Page, tmp_path: Path) -> None:
    models = tmp_path / "gguf"
    models.mkdir()
    assert page.ask("folders", step="list")["result"] == []
    assert page.ask("folders", step="add", path=str(models))["result"] == [str(models)]
    assert "is not a folder" in page.ask("folders", step="add", path="/none")["error"]["message"]
    assert "whole path" in page.ask("folders", step="add", path="gguf")["error"]["message"]
    assert page.ask("folders", step="remove", path=str(models))["result"] == []
