"""The page's process with a real engine that hangs: chats go on, nothing stays "streaming"."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.services import Application
from engine.data.folders import DataFolder
from engine.process.client import EngineClient
from tests.fakes_models import FakeDownloads, FakeModels
from tests.faults.engine_faults import engine_process, kill, suspend
from tests.faults.engine_page import Page, is_over, is_told, running


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    with running(tmp_path) as built:
        yield built


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


def test_the_page_hears_of_a_death_a_return_a_prediction_and_a_loss(
    application: Application, tmp_path: Path
) -> None:
    page = Page(application)

    def greedy(event: dict[str, Any]) -> Any:
        return event["loaded"] and event["loaded"]["predicted"].get("greedy")

    application.services.preferences.set_settings({"temperature": 0.0, "max_tokens": 150})
    chat = page.ask("send", conversation=None, text="abc" * 100)["conversation"]
    page.wait(chat, is_over)
    for _ in range(8):  # until there is evidence enough
        page.ask("send", conversation=chat, text="abc" * 100)
        page.wait(chat, is_over)
    known = page.hears(lambda event: greedy(event) is not None)
    kill(engine_process())
    known = page.hears(lambda event: event["loaded"] is not None, known)
    page.ask("send", conversation=chat, text="again")
    page.wait(chat, is_over)
    known = page.hears(lambda event: event["loaded"] is not None, known)
    (tmp_path / "slow.gguf").unlink()
    kill(engine_process())
    page.hears(lambda event: event["loaded"] is not None, known)
    page.ask("send", conversation=chat, text="once more")
    page.hears(lambda event: event["loaded"] is None, known)
    assert page.wait(chat, is_over)["details"]["finish"] == "failed"


@pytest.mark.slow
def test_closing_saves_the_reply_of_a_suspended_engine(
    application: Application, tmp_path: Path
) -> None:
    page = Page(application)
    chat = page.ask("send", conversation=None, text="hello")["conversation"]
    page.wait(chat, is_told)
    suspend(engine_process())
    application.close()
    folder = DataFolder(tmp_path / "data")
    again = Application(EngineClient(folder), FakeModels(), FakeDownloads(), folder)
    kept = Page(again).last_message(chat)
    assert kept["details"]["finish"] == "cancelled" and kept["content"]
    again.close()
