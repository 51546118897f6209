"""Threads of the page's process that end for whatever reason: what they worked on is settled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chat import Chat
from app.conversations import Conversations
from app.loading import Loading
from app.names import Names
from app.preferences import PreferencesFile
from app.presets import PresetsFile
from app.session import Sessions
from app.task import Task, TaskState
from app.wire import WireToken
from engine.data.errors import RequestError
from engine.data.loaded import LoadedSummary
from engine.data.request import LoadRequest
from tests.fakes_engine import FakeEngine

WAIT = 30.0
NAMES = Names(lambda news: None)


@pytest.fixture
def faults() -> Iterator[list[str]]:
    """What threads died of, instead of a warning; each test says what it expects."""
    seen: list[str] = []
    before = threading.excepthook
    threading.excepthook = lambda args: seen.append(args.exc_type.__name__)
    yield seen
    threading.excepthook = before


def test_a_task_that_dies_of_a_fault_has_failed(faults: list[str]) -> None:
    task = Task("lab", "it is busy", TaskState(), Sessions())

    def run() -> None:
        raise ZeroDivisionError

    task.start(TaskState(doing="something"), run)
    task.wait(WAIT)
    assert task.state.state == "failed" and task.state.doing == ""
    assert "terminal" in task.state.error and faults == ["ZeroDivisionError"]
    task.start(TaskState(), lambda: task.change(state="done"))
    task.wait(WAIT)
    assert task.state == replace(TaskState(), state="done"), "the next one runs"


class BrokenEngine(FakeEngine):
    def load(self, request: LoadRequest, on_progress: object = None) -> LoadedSummary:
        raise ZeroDivisionError


def test_a_load_that_dies_of_a_fault_is_over(tmp_path: Path, faults: list[str]) -> None:
    loading = Loading(BrokenEngine(), PreferencesFile(tmp_path / "p.json"), Sessions(), NAMES)
    for _ in range(2):
        loading.start("starter", ())
        loading.wait(WAIT)
        state = loading.state()
        assert state["progress"] is None and "terminal" in state["error"]["message"]
    assert faults == ["ZeroDivisionError"] * 2


def test_a_load_is_stopped_from_the_page(tmp_path: Path) -> None:
    sessions = Sessions()
    loading = Loading(FakeEngine(), PreferencesFile(tmp_path / "p.json"), sessions, NAMES)
    loading.stop()
    loading.start("starter", ("endless",))
    with pytest.raises(RequestError):
        loading.start("starter", ())
    loading.wait_or_stop(lambda: True)
    assert loading.state()["error"]["kind"] == "StoppedError"
    loading.start("starter", ())
    loading.wait(WAIT)
    assert loading.state()["error"] is None


class Watched(Conversations):
    """Looks at the chat, as a page may, the moment a reply's last words are stored."""

    look: Callable[[int], bool]
    seen: list[bool]

    def save_reply(
        self,
        message: int,
        content: str,
        tokens: Sequence[WireToken],
        details: dict[str, Any],
        streaming: bool,
    ) -> None:
        super().save_reply(message, content, tokens, details, streaming)
        conversation = self.conversation_of(message)
        assert conversation is not None
        if not streaming:
            self.seen.append(self.look(conversation))


def test_a_reply_is_over_when_the_next_message_may_be_sent(tmp_path: Path) -> None:
    engine, sessions = FakeEngine(), Sessions()
    preferences = PreferencesFile(tmp_path / "p.json")
    names = Names(lambda _news: None)
    Loading(engine, preferences, sessions, names).start("starter", ())
    store, presets = Watched(tmp_path / "c.sqlite3"), PresetsFile(tmp_path / "presets.json")
    chat, session = Chat(engine, store, preferences, sessions, names, presets), sessions.create()
    store.seen = []

    def is_streaming(conversation: int) -> bool:
        return bool(chat.open(session, conversation)["messages"][-1]["streaming"])

    store.look = is_streaming
    until(lambda: engine.loaded is not None)
    conversation = chat.send(session, None, "hello")["conversation"]
    until(lambda: not is_streaming(conversation))
    chat.send(session, conversation, "hello again")
    chat.close()
    assert store.seen[0] is True
    store.close()


def until(happened: Callable[[], bool]) -> None:
    for _ in range(int(WAIT / 0.01)):
        if happened():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")
