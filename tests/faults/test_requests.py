"""What a page can ask, asked by someone who is no page: every action with hostile values."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.handlers import Handlers
from app.model_service import LibraryModelService
from app.requests import ARGUMENTS, MESSAGE_LENGTH
from app.services import Application
from engine.data.errors import ERROR_KINDS
from engine.data.folders import DataFolder
from engine.downloads.manager import Downloads
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels

WAIT = 20.0
DECLARED = {*ERROR_KINDS, "BadRequest", "SessionLost", "StorageError"}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


HALF = "\ud83d"
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 5, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40, 0.5,
    1e308, float("nan"), float("inf"), -float("inf"), "", "x", " ", "1", HALF, f"a{HALF}b", "\0",
    "a\0b", "\x1b[2J", "\u202e", "../..", "/", "~nobody/x", "/" * 5_000, "x" * 5_000, "%00", "%ff",
    "model:", "first(" * 50, "early-exit:skip=²", "recycle:tree=" + "9" * 5_000, [], [[]], [None],
    ["x"], [HALF], ["ngram", "ngram"], [1], {}, {"x": 1}, {HALF: HALF}, {"top_k": 10**40},
    {"temperature": float("nan")}, {"theme": 1}, {"ghosts": 1}, {"theme": []}, {"": {}}, nested(70),
    nested(2_000), ["x"] * 2_000,
)  # fmt: skip


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    built = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    built.load_last()
    built.services.loading.wait(WAIT)
    yield built
    built.close()


class Attacker:
    def __init__(self, application: Application) -> None:
        self.handlers = Handlers(application.services)
        self.session = self.handlers.hello({})["session"]

    def ask(self, action: Any, arguments: Any) -> dict[str, Any]:
        """Every answer can be sent, and an error is one that is declared."""
        request = {"session": self.session, "action": action, "arguments": arguments}
        answer = self.handlers.call(request)
        json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()
        if "error" in answer:
            assert answer["error"]["kind"] in DECLARED, answer
            assert answer["error"]["message"].isprintable()
        return answer

    def still_works(self) -> None:
        hello = self.handlers.hello({"conversation": None})
        json.dumps(hello, allow_nan=False, ensure_ascii=False).encode()
        self.session = hello["session"]


@pytest.fixture
def attacker(application: Application) -> Attacker:
    return Attacker(application)


def test_every_action_has_its_arguments(application: Application) -> None:
    assert Handlers(application.services).actions == set(ARGUMENTS)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_no_payload_breaks_what_a_page_calls(attacker: Attacker, number: int) -> None:
    value, handlers = HOSTILE[number], attacker.handlers
    table = value if isinstance(value, dict) else {"conversation": value, "after": value}
    for content in (value, table, {"session": attacker.session, **table}):
        for served in (handlers.hello, handlers.resync, handlers.call):
            json.dumps(served(content), allow_nan=False, ensure_ascii=False).encode()
        handlers.followed(content)
    attacker.ask(value, {})
    attacker.ask("open", value)


@pytest.mark.parametrize("action", ARGUMENTS)
def test_each_argument_with_each_hostile_value(attacker: Attacker, action: str) -> None:
    good = {name: None for name in ARGUMENTS[action]}
    attacker.ask(action, {**good, "unknown": 1})
    for name in good:
        for value in HOSTILE:
            attacker.ask(action, {**good, name: value})
    attacker.still_works()


@pytest.mark.parametrize(
    ("action", "arguments", "message"),
    [
        ("open", {"conversation": 2**63}, "conversation must be the number of one"),
        ("open", 5, "arguments must be a table"),
        ("open", "x", "arguments must be a table"),
        ("open", {}, "conversation is missing"),
        ("open", {"conversation": None, "x": 1}, "unknown argument 'x'"),
        ("options", {"target": ["starter"]}, "target must be text"),
        ("send", {"conversation": True, "text": "x"}, "conversation must be"),
        ("send", {"conversation": None, "text": ["x"]}, "text must be text"),
        (
            "send",
            {"conversation": None, "text": "x" * (MESSAGE_LENGTH + 1)},
            "2,000,000 char",
        ),
        ("lab_stop", {"a": nested(80)}, "nested more than"),
        ("log", {"after": float("nan")}, "not finite"),
        ("log", {"after": 10**30}, "64 bits"),
    ],
)
def test_what_is_wrong_is_said(
    attacker: Attacker, action: str, arguments: Any, message: str
) -> None:
    error = attacker.ask(action, arguments)["error"]
    assert error["kind"] == "BadRequest" and message in error["message"]


def test_half_a_character_in_a_message_becomes_a_whole_one(
    attacker: Attacker, application: Application
) -> None:
    text = f"one{HALF} two\0"
    opened = attacker.ask("send", {"conversation": None, "text": text})["result"]
    messages = attacker.ask("open", opened)["result"]["messages"]
    assert messages[0]["content"] == "one� two�"
    attacker.ask("rename", {**opened, "title": f"a{HALF}"})
    assert attacker.ask("search", {"text": "one�"})["result"]["items"][0]["title"] == "a�"
    attacker.ask("settings", {"changes": {"system_prompt": HALF}})
    attacker.still_works()


def test_a_stored_half_character_does_not_keep_a_chat_from_opening(
    attacker: Attacker, tmp_path: Path
) -> None:
    """Bytes that some other program wrote into the file are no text either."""
    opened = attacker.ask("send", {"conversation": None, "text": "hello"})["result"]
    wait_for_end(attacker)
    with closing(sqlite3.connect(tmp_path / "conversations.sqlite3")) as store, store:
        store.execute("update messages set content = cast(x'68e9eda0bd' as text)")
        store.execute("update messages set details = ?", ('{"a": "\\ud83d"}',))
        store.execute("update conversations set title = cast(x'e9' as text)")
    shown = attacker.ask("open", opened)["result"]["messages"][0]
    assert shown["content"].startswith("h�") and shown["details"] == {"a": "�"}
    assert attacker.ask("search", {"text": ""})["result"]["items"][0]["title"] == "�"


@pytest.mark.parametrize(
    ("action", "name"),
    [
        *[("options", "target"), ("memory", "target"), ("load", "target"), ("load", "drafters")],
        *[("memory", "drafters"), ("folders", "path"), ("train_delete", "name")],
        *(("train", name) for name in ("kind", "name", "target", "texts")),
        *(("train_forecast", name) for name in ("kind", "name", "target", "texts")),
    ],
)
def test_hostile_names_and_the_real_files(tmp_path: Path, action: str, name: str) -> None:
    folder = DataFolder(tmp_path)
    trainer = (sys.executable, "-c", "")
    models, downloads = LibraryModelService(folder), Downloads(folder)
    application = Application(FakeEngine(), models, downloads, folder, trainer)
    attacker = Attacker(application)
    good: dict[str, Any] = {
        "target": "starter",
        "drafters": [],
        "step": "add",
        "kind": "medusa",
        "name": "a",
    }
    good["minutes"] = 1
    good = {key: value for key, value in good.items() if key in ARGUMENTS[action]}
    try:
        words = [one for one in HOSTILE if isinstance(one, str)]
        for value in words[::3] if action == "options" else words:  # each lists all there is
            changed = [value] if name in ("texts", "drafters") else value
            attacker.ask(action, {**good, name: changed})
        attacker.still_works()
    finally:
        application.close()


def wait_for_end(attacker: Attacker) -> None:
    deadline = time.monotonic() + WAIT
    request = {"session": attacker.session, "after": 0}
    while not any(event["k"] == "end" for event in attacker.handlers.resync(request)["events"]):
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def _random_value(random_: random.Random, depth: int = 0) -> Any:
    kind = random_.randrange(10)
    if kind == 0 and depth < 4:
        return [_random_value(random_, depth + 1) for _ in range(random_.randrange(4))]
    if kind == 1 and depth < 4:
        keys = random_.choices(
            ["x", "target", HALF, "top_k", "theme", "seed"], k=random_.randrange(4)
        )
        return {key: _random_value(random_, depth + 1) for key in keys}
    if kind == 2:
        return random_.choice([1, -1]) * random_.getrandbits(random_.randrange(1, 80))
    if kind == 3:
        return "".join(map(chr, random_.choices([*range(130), 0xD800, 0x2028, 0x1F600], k=12)))
    return random_.choice(HOSTILE)


def _fuzz(attacker: Attacker, seed: int, requests: int) -> dict[str, int]:
    random_ = random.Random(seed)
    answers: dict[str, int] = {}
    for _ in range(requests):
        action = random_.choice(list(ARGUMENTS))
        arguments = {name: _random_value(random_) for name in ARGUMENTS[action]}
        if random_.random() < 0.1:
            arguments[random_.choice(["x", HALF, ""])] = _random_value(random_)
        answer = attacker.ask(action, arguments)
        kind = answer["error"]["kind"] if "error" in answer else "result"
        answers[kind] = answers.get(kind, 0) + 1
    attacker.still_works()
    return answers


def test_random_requests(attacker: Attacker) -> None:
    assert sum(_fuzz(attacker, 1, 1_500).values()) == 1_500


@pytest.mark.slow
def test_many_random_requests(attacker: Attacker) -> None:
    answers = _fuzz(attacker, 2, 100_000)
    print(f"requests: {sum(answers.values()):,}, answers: {answers}")
