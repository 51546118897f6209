"""Two faults at once, with a real engine: where one part's rescue meets another's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.services import Application
from engine.data.folders import DataFolder
from engine.process.client import EngineClient
from tests.fakes_models import FakeDownloads, FakeModels
from tests.faults.engine_faults import QUICK, engine_process, suspend
from tests.faults.engine_page import WAIT, Page, is_over, is_told, running
from tests.faults.test_unsaved_replies import Disk


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    with running(tmp_path) as built:
        yield built


def begun(page: Page) -> int:
    """A chat in which a reply is being written."""
    chat: int = page.ask("send", conversation=None, text="hello")["conversation"]
    page.wait(chat, is_told)
    return chat


def restarted(tmp_path: Path) -> Application:
    folder = DataFolder(tmp_path / "data")
    return Application(EngineClient(folder, QUICK), FakeModels(), FakeDownloads(), folder)


def stopped_on_a_full_disk(page: Page, disk: Disk, chat: int) -> dict[str, Any]:
    """Stop, while neither the engine nor the disk does what it should."""
    suspend(engine_process())
    disk.fill("insert", "update", "delete")
    page.ask("stop", conversation=chat)
    ended = page.wait(chat, is_over)
    assert ended["details"]["finish"] == "cancelled" and ended["details"]["unsaved"]
    return ended


def test_a_stopped_reply_of_a_hanging_engine_outlives_a_full_disk(
    application: Application, tmp_path: Path
) -> None:
    page, disk = Page(application), Disk(tmp_path / "data")
    chat = begun(page)
    ended = stopped_on_a_full_disk(page, disk, chat)
    disk.free()
    saved = page.wait(chat, lambda message: "unsaved" not in message["details"])
    assert saved["tokens"] == ended["tokens"] and is_told(saved)
    page.ask("send", conversation=chat, text="again")
    page.wait(chat, is_told)
    application.close()
    later = restarted(tmp_path)
    assert Page(later).ask("open", conversation=chat)["messages"][1] == saved
    later.close()


@pytest.mark.slow
def test_the_version_before_is_there_when_the_page_dies_too(
    application: Application, tmp_path: Path
) -> None:
    page, disk = Page(application), Disk(tmp_path / "data")
    chat = begun(page)
    page.ask("stop", conversation=chat)
    first = page.wait(chat, is_over)
    page.ask("regenerate", message=first["id"])
    page.wait(chat, is_told)
    stopped_on_a_full_disk(page, disk, chat)
    disk.free()
    later = restarted(tmp_path)  # as if this process had been killed: nothing was closed
    other = Page(later)
    assert first["id"] in other.last_message(chat)["versions"]
    other.ask("select", message=first["id"])
    kept = other.last_message(chat)
    assert (kept["content"], kept["details"]) == (first["content"], first["details"])
    later.close()


@pytest.mark.slow
def test_a_disk_that_gets_room_while_the_page_ends_takes_the_reply(
    application: Application, tmp_path: Path
) -> None:
    page, disk = Page(application), Disk(tmp_path / "data")
    chat = begun(page)
    suspend(engine_process())
    disk.fill("update")
    closing = threading.Thread(target=application.close)
    closing.start()
    disk.free()
    closing.join(WAIT)
    later = restarted(tmp_path)
    kept = Page(later).last_message(chat)
    assert kept["details"]["finish"] == "cancelled" and is_told(kept)
    later.close()


@pytest.mark.slow
def test_a_page_that_is_loaded_again_while_the_engine_is_replaced(
    application: Application,
) -> None:
    page = Page(application)
    chat = begun(page)
    suspend(engine_process())
    told = page.last_message(chat)["tokens"]
    message = page.reload(chat)["chat"]["messages"][-1]
    while not is_over(message):
        hello = page.reload(chat)
        message = hello["chat"]["messages"][-1]
        assert message["tokens"][: len(told)] == told
        assert hello["engine"]["loaded"] is not None and hello["engine"]["error"] is None
        threading.Event().wait(0.05)
    assert message["details"]["finish"] == "failed"
    page.ask("send", conversation=chat, text="again")
    page.wait(chat, is_told)


def test_a_model_that_does_not_come_back_is_no_longer_shown_as_loaded(
    application: Application, tmp_path: Path
) -> None:
    page = Page(application)
    chat = begun(page)
    (tmp_path / "slow.gguf").rename(tmp_path / "away.gguf")
    suspend(engine_process())
    page.wait(chat, is_over)
    told = page.wait_for_event("engine", lambda event: event["loaded"] is None)
    assert "slow.gguf" in told["error"]["message"]
    assert page.reload(chat)["engine"]["error"] == told["error"]
    (tmp_path / "away.gguf").rename(tmp_path / "slow.gguf")
    page.ask("load", target=str(tmp_path / "slow.gguf"), drafters=[])
    application.services.loading.wait(WAIT)
    page.ask("send", conversation=chat, text="again")
    page.wait(chat, is_told)
