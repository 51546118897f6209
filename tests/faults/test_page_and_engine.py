"""The page's process with a real engine that hangs: chats go on, nothing stays "streaming"."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.handlers import Handlers
from app.services import Application
from engine.data.folders import DataFolder
from engine.process.client import EngineClient
from tests.engine.runs import write_slow_tiny
from tests.fakes_models import FakeShelf
from tests.faults.engine_faults import QUICK, engine_process, suspend

WAIT = 60.0


class Page:
    def __init__(self, application: Application) -> None:
        self._handlers = Handlers(application.services)
        self._session: str = self._handlers.hello({})["session"]

    def reload(self, chat: int) -> dict[str, Any]:
        """As the browser's button: a new session, and all that the page draws first."""
        hello = self._handlers.hello({"conversation": chat, "before": self._session})
        self._session = hello["session"]
        return hello

    def wait_for_event(self, kind: str, wanted: Callable[[Any], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            told = self._handlers.resync({"session": self._session, "after": 0})["events"]
            for event in told:
                if event["k"] == kind and wanted(event):
                    found: dict[str, Any] = event
                    return found
            threading.Event().wait(0.02)
        raise AssertionError(f"no {kind} of that kind")

    def ask(self, action: str, **arguments: Any) -> Any:
        answer = self._handlers.call(
            {"session": self._session, "action": action, "arguments": arguments}
        )
        assert "error" not in answer, answer
        return answer["result"]

    def last_message(self, chat: int) -> dict[str, Any]:
        message: dict[str, Any] = self.ask("open", conversation=chat)["messages"][-1]
        return message

    def wait(self, chat: int, happened: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            message = self.last_message(chat)
            if happened(message):
                return message
            threading.Event().wait(0.02)
        raise AssertionError(self.last_message(chat))


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    folder = DataFolder(tmp_path / "data").ensure()
    built = Application(EngineClient(folder, QUICK), FakeShelf(), folder)
    endless = {"context_length": 2048, "max_tokens": 1000, "temperature": 0.0}
    built.services.preferences.set_settings(endless)
    built.services.loading.start(str(write_slow_tiny(tmp_path / "slow.gguf")), ("ngram",))
    built.services.loading.wait(WAIT)
    assert built.services.loading.state()["error"] is None
    yield built
    built.close()


def is_told(message: dict[str, Any]) -> bool:
    return len(message.get("tokens", ())) > 5


def is_over(message: dict[str, Any]) -> bool:
    return not message["streaming"]


def test_stop_ends_a_reply_of_a_suspended_engine_and_the_chat_goes_on(
    application: Application,
) -> None:
    page = Page(application)
    chat = page.ask("send", conversation=None, text="hello")["conversation"]
    other = page.ask("send", conversation=None, text="and hello")["conversation"]
    page.wait(chat, is_told)
    suspend(engine_process())
    page.ask("stop", conversation=chat)
    ended = page.wait(chat, is_over)
    assert ended["details"]["finish"] == "cancelled" and is_told(ended)
    assert ended["content"], "its text is kept"
    page.wait(other, is_told)
    page.ask("stop", conversation=other)
    page.wait(other, is_over)
    page.ask("send", conversation=chat, text="again")
    page.wait(chat, is_told)


def test_a_reply_whose_engine_falls_silent_fails_with_its_text(application: Application) -> None:
    page = Page(application)
    chat = page.ask("send", conversation=None, text="hello")["conversation"]
    page.wait(chat, is_told)
    suspend(engine_process())
    ended = page.wait(chat, is_over)
    assert ended["details"]["finish"] == "failed" and ended["content"]
    assert "did not answer" in ended["details"]["error"]["message"]
    page.ask("send", conversation=chat, text="again")
    page.wait(chat, is_told)


@pytest.mark.slow
def test_closing_saves_the_reply_of_a_suspended_engine(
    application: Application, tmp_path: Path
) -> None:
    page = Page(application)
    chat = page.ask("send", conversation=None, text="hello")["conversation"]
    page.wait(chat, is_told)
    suspend(engine_process())
    application.close()
    again = Application(
        EngineClient(DataFolder(tmp_path / "data")), FakeShelf(), DataFolder(tmp_path / "data")
    )
    kept = Page(again).last_message(chat)
    assert kept["details"]["finish"] == "cancelled" and kept["content"]
    again.close()
