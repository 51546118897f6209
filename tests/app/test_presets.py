"""Presets, the settings of one chat, pins and folders, asked as a page does."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from app.own_settings import OwnSettings
from app.presets import PresetsFile
from app.services import Application
from engine.data.errors import BadOptionError
from engine.data.request import Message
from engine.models.sampling_advice import sampling_advice
from tests.app.page_side import Page
from tests.card_files import V2, card_png
from tests.fakes_engine import FakeEngine


def ask(page: Page, action: str, **arguments: Any) -> Any:
    answer = page.ask(action, **arguments)
    assert "error" not in answer, answer
    return answer["result"]


def refused(page: Page, action: str, **arguments: Any) -> str:
    return str(page.ask(action, **arguments)["error"]["message"])


def listed(page: Page, **asked: Any) -> Any:
    return ask(page, "search", **{"text": ""} | asked)


def titles(page: Page, **asked: Any) -> list[str]:
    return [one["title"] for one in listed(page, **asked)["items"]]


def test_a_chats_own_settings_hold_for_it_alone(page: Page, engine: FakeEngine) -> None:
    conversation = page.send("hello")
    page.wait_for("end")
    state = ask(page, "chat_settings", conversation=conversation)
    assert state["own"] == [] and state["values"]["temperature"] == 0.7
    changes = {"temperature": 0.25, "system_prompt": "Be brief."}
    state = ask(page, "chat_set", conversation=conversation, changes=changes)
    assert sorted(state["own"]) == ["system_prompt", "temperature"]
    page.send("hello", conversation)
    page.wait_for("end", 2)
    assert engine.requests[-1].sampling.temperature == 0.25
    assert engine.requests[-1].messages[0] == Message("system", "Be brief.")
    page.send("hello")
    page.wait_for("end", 3)
    assert engine.requests[-1].sampling.temperature == 0.7
    state = ask(page, "chat_set", conversation=conversation, changes={"temperature": None})
    assert state["own"] == ["system_prompt"] and state["values"]["temperature"] == 0.7


def test_what_is_not_set_follows_the_general_settings(page: Page) -> None:
    conversation = page.send("hello")
    page.wait_for("end")
    ask(page, "chat_set", conversation=conversation, changes={"top_k": 3})
    ask(page, "settings", changes={"top_k": 9, "top_p": 0.5})
    values = ask(page, "chat_settings", conversation=conversation)["values"]
    assert (values["top_k"], values["top_p"]) == (3, 0.5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"temperature": 9}, "Temperature"), ({"threads": 1}, "threads"), ({"seed": 1}, "seed")],
)
def test_bad_values_change_nothing(page: Page, changes: dict[str, Any], said: str) -> None:
    conversation = page.send("hello")
    page.wait_for("end")
    assert said in refused(page, "chat_set", conversation=conversation, changes=changes)
    assert ask(page, "chat_settings", conversation=conversation)["own"] == []


def test_a_preset_is_made_chosen_renamed_and_deleted(page: Page, tmp_path: Path) -> None:
    ask(page, "settings", changes={"temperature": 0.1})
    state = ask(page, "preset_save", name=" Exact  answers ", conversation=None, over=False)
    assert state["presets"] == [{"name": "Exact answers", "character": False}]
    message = refused(page, "preset_save", name="exact ANSWERS", conversation=None, over=False)
    assert "already" in message
    ask(page, "settings", changes={"temperature": 1.0})
    first = page.send("hello")
    page.wait_for("end")
    state = ask(page, "chat_preset", conversation=first, preset="Exact answers")
    assert state["preset"] == "Exact answers" and state["values"]["temperature"] == 0.1
    step = {"to": None, "conversation": first}
    state = ask(page, "preset_step", name="Exact answers", step="rename", **step | {"to": "Exact"})
    assert [one["name"] for one in state["presets"]] == ["Exact"]
    assert ask(page, "preset_step", name="Exact", step="default", **step)["default"] == "Exact"
    second = page.send("hello")
    page.wait_for("end", 2)
    state = ask(page, "chat_settings", conversation=second)
    assert (state["preset"], state["values"]["temperature"]) == ("Exact", 0.1)
    state = ask(page, "preset_step", name="Exact", step="delete", **step)
    assert state["presets"] == [] and state["default"] == ""
    assert state["values"]["temperature"] == 0.1  # the chat has its own copy
    state = ask(page, "chat_preset", conversation=first, preset=None)
    assert (state["own"], state["preset"]) == ([], "")
    assert "any more" in refused(page, "chat_preset", conversation=first, preset="Exact")
    assert json.loads((tmp_path / "presets.json").read_text()) == {"presets": [], "default": ""}


def test_settings_before_the_first_message_begin_the_chat(page: Page, engine: FakeEngine) -> None:
    state = ask(page, "chat_set", conversation=None, changes={"top_k": 5})
    conversation = state["conversation"]
    assert titles(page) == ["New chat"]
    page.send("a recipe", conversation)
    page.wait_for("end")
    assert engine.requests[-1].sampling.top_k == 5
    assert titles(page) == ["a recipe"]


def test_a_character_begins_a_chat_with_its_greeting(
    page: Page, application: Application, engine: FakeEngine, tmp_path: Path
) -> None:
    taken = application.services.presets.take(card_png(), "ada.png")
    assert taken == {"name": "Ada", "greetings": 2, "entries": 2}
    assert application.services.presets.take(card_png(), "ada.png")["name"] == "Ada 2"
    state = ask(page, "chat_preset", conversation=None, preset="Ada")
    assert state["character"] == "Ada" and titles(page) == ["Ada"]
    (greeting,) = ask(page, "open", conversation=state["conversation"])["messages"]
    assert (greeting["role"], greeting["content"]) == ("assistant", "Hello User, I am Ada.")
    page.send("hello", state["conversation"])
    page.wait_for("end")
    system, first, user = engine.requests[-1].messages
    assert system.content.startswith("Speak as Ada.\n\nAda builds engines with User.")
    assert first == Message("assistant", "Hello User, I am Ada.")
    assert user == Message("user", "It is 1842.\n\nhello\n\nStay Ada.")
    kept = json.loads((tmp_path / "presets.json").read_text())["presets"][0]
    assert kept["card"] == V2


def test_a_character_greets_in_a_chat_that_was_begun_by_a_setting_but_not_in_another(
    page: Page, application: Application
) -> None:
    application.services.presets.take(card_png(), "ada.png")
    begun = ask(page, "chat_set", conversation=None, changes={"top_k": 5})["conversation"]
    ask(page, "chat_preset", conversation=begun, preset="Ada")
    ask(page, "chat_preset", conversation=begun, preset="Ada")
    assert len(ask(page, "open", conversation=begun)["messages"]) == 1 and titles(page) == ["Ada"]
    written = page.send("hello")
    page.wait_for("end")
    ask(page, "chat_preset", conversation=written, preset="Ada")
    assert len(ask(page, "open", conversation=written)["messages"]) == 2


def test_a_greeting_stays_when_it_cannot_be_written_again(
    page: Page, application: Application
) -> None:
    application.services.presets.take(card_png(), "ada.png")
    begun = ask(page, "chat_preset", conversation=None, preset="Ada")["conversation"]
    ask(page, "chat_set", conversation=begun, changes={"system_prompt": None})
    (greeting,) = ask(page, "open", conversation=begun)["messages"]
    assert "answers nothing" in refused(page, "regenerate", message=greeting["id"])
    assert ask(page, "open", conversation=begun)["messages"] == [greeting]


def test_presets_on_disk_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "presets.json"
    for wrong in (
        {"presets": [{"name": "a", "sampling": {"temperature": 99}}], "default": ""},
        {"presets": [{"name": "a", "sampling": {"threads": 9}}], "default": ""},
        {"presets": [{"name": "a"}, {"name": "A"}], "default": ""},
        {"presets": [{"name": "a", "card": {"no": "name"}}], "default": ""},
        {"presets": [{"name": "a", "system": 7}], "default": ""},
        {"presets": 7, "default": ""},
    ):
        path.write_text(json.dumps(wrong))
        presets = PresetsFile(path)
        assert "presets.json could not be read" in presets.problem, wrong
        assert presets.current.items == () and not path.exists()


def test_presets_outlive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "presets.json"
    presets = PresetsFile(path)
    presets.save("a", OwnSettings({"top_k": 3}, card=V2))
    presets.set_default("a")
    assert PresetsFile(path).current == presets.current
    with pytest.raises(BadOptionError, match="name"):
        presets.save("  ", OwnSettings())


def test_damaged_settings_of_a_chat_are_none(page: Page, tmp_path: Path) -> None:
    conversation = page.send("hello")
    page.wait_for("end")
    for wrong in ("{", "7", '{"sampling": 7}', '{"sampling": {"top_k": -1}}', '{"card": {}}'):
        with sqlite3.connect(tmp_path / "conversations.sqlite3") as file:
            file.execute("update conversations set settings = ?", (wrong,))
        assert ask(page, "chat_settings", conversation=conversation)["own"] == [], wrong


def test_pins_and_folders_order_the_list_and_pages_of_it(page: Page) -> None:
    chats = {}
    for number, title in enumerate(("one", "two", "three", "four", "five"), start=1):
        chats[title] = page.send(title)
        page.wait_for("end", number)
    ask(page, "pin", conversation=chats["two"], pinned=True)
    for title, folder in (("one", "zebra"), ("three", " Apple  pie "), ("four", "zebra")):
        ask(page, "move", conversation=chats[title], folder=folder)
    order = ["two", "three", "four", "one", "five"]
    assert titles(page) == order
    assert [titles(page, limit=count) for count in range(1, 6)] == [
        order[:count] for count in range(1, 6)
    ]
    folders = [{"name": "Apple pie", "count": 1}, {"name": "zebra", "count": 2}]
    assert listed(page)["folders"] == folders
    assert titles(page, closed=["zebra"]) == ["two", "three", "five"]
    assert "four" in titles(page, text="four", closed=["zebra"])
    ask(page, "rename_folder", folder="zebra", to="Apple pie")
    assert listed(page)["folders"] == [{"name": "Apple pie", "count": 3}]
    ask(page, "rename_folder", folder="Apple pie", to="")
    ask(page, "pin", conversation=chats["two"], pinned=False)
    assert listed(page)["folders"] == []
    assert titles(page) == ["five", "four", "three", "two", "one"]
    assert "gone" in refused(page, "pin", conversation=999, pinned=True)


def test_a_deleted_chat_leaves_its_folder(page: Page) -> None:
    conversation = page.send("hello")
    page.wait_for("end")
    ask(page, "move", conversation=conversation, folder="a")
    ask(page, "delete", conversation=conversation)
    assert listed(page)["folders"] == []
    ask(page, "restore", conversation=conversation)
    assert listed(page)["folders"] == [{"name": "a", "count": 1}]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Qwen3-8B-Q4_K_M.gguf", "Qwen3"),
        ("qwen3", "Qwen3"),
        ("Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf", None),
        ("Qwen3.6-27B-Q4_K_M.gguf", "Qwen3.5 and later without thinking"),
        ("Qwen2.5-Coder-1.5B-Instruct", None),
        ("gemma-4-E2B-it-Q4_K_M.gguf", "Gemma 4"),
        ("gemma-3-4b-it", None),
        ("gpt-oss-20b-mxfp4.gguf", "gpt-oss"),
        ("GLM-4.7-Flash-Q4_K_M.gguf", "GLM"),
        ("Magistral-Small-2509", "Magistral"),
        ("granite-4.1-8b-Q4_K_M.gguf", "Granite 4"),
        ("SmolLM2 135M Instruct", None),
    ],
)
def test_advice_is_known_for_the_family(name: str, family: str | None) -> None:
    found = sampling_advice(name)
    assert (None if found is None else found.family) == family
    if found is not None:
        OwnSettings().changed(dict(found.values))
