"""The disk is full while a chat is changed: nothing is lost, the page says so, and saves later."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.services import Application
from engine.data.folders import DataFolder
from tests.app.page_side import WAIT, Page
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels


class Disk:
    """Refuses what is written to the chats' file, from outside, as a full disk does."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "conversations.sqlite3"

    def fill(self, *changes: str) -> None:
        with closing(sqlite3.connect(self._file)) as other:
            for number, change in enumerate(changes):
                other.execute(
                    f"create trigger full{number} before {change} on messages"
                    " begin select raise(abort, 'database or disk is full'); end"
                )

    def free(self) -> None:
        with closing(sqlite3.connect(self._file)) as other:
            names = other.execute("select name from sqlite_schema where type = 'trigger'")
            for (name,) in names.fetchall():
                other.execute(f"drop trigger {name}")


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def started(folder: Path) -> Application:
    application = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(folder))
    application.load_last()
    application.services.loading.wait(WAIT)
    return application


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    running = started(tmp_path)
    yield running
    running.close()


@pytest.fixture
def page(application: Application) -> Page:
    return Page(application)


def contents(page: Page, conversation: int) -> list[str]:
    messages = page.ask("open", conversation=conversation)["result"]["messages"]
    return ["".join(t[0] for t in m["tokens"]) or m["content"] for m in messages]


def test_a_reply_on_a_full_disk_is_shown_and_saved_when_there_is_room(
    page: Page, disk: Disk, application: Application, tmp_path: Path
) -> None:
    disk.fill("update")
    conversation = page.send("hello")
    (end,) = page.wait_for("end")
    assert "disk is full" in end["details"]["unsaved"]
    question, reply = contents(page, conversation)
    assert reply.startswith("Hello! This is")  # from memory: the file has an empty one
    again = page.ask("save_again")["error"]
    assert "still cannot be saved" in again["message"]
    assert "could not be saved yet" in page.ask(
        "send", conversation=conversation, text="and"
    )["error"]["message"]  # fmt: skip
    assert contents(page, conversation) == [question, reply]

    disk.free()
    page.wait_for("saved")  # by itself
    stored = page.ask("open", conversation=conversation)["result"]["messages"][1]
    assert stored["content"] == reply and "unsaved" not in stored["details"]
    application.close()
    later = started(tmp_path)
    assert contents(Page(later), conversation) == [question, reply]
    later.close()


def test_saving_can_be_asked_for_and_the_next_message_saves_too(page: Page, disk: Disk) -> None:
    disk.fill("update")
    first, second = page.send("hello one"), page.send("hello two")
    page.wait_for("end", 1)
    page.ask("open", conversation=first)
    disk.free()
    assert "error" not in page.ask("send", conversation=first, text="hello again")
    page.wait_for("end", 2)
    assert "error" not in page.ask("save_again")
    assert len(contents(page, first)) == 4 and len(contents(page, second)) == 2


def test_closing_saves_what_could_not_be(
    page: Page, disk: Disk, application: Application, tmp_path: Path
) -> None:
    disk.fill("update")
    conversation = page.send("hello")
    page.wait_for("end")
    disk.free()
    application.close()
    later = started(tmp_path)
    assert contents(Page(later), conversation)[1].startswith("Hello! This is")
    later.close()


@pytest.mark.parametrize("changes", [["insert"], ["update"], ["insert", "update"]])
@pytest.mark.parametrize("action", ["regenerate", "edit"])
def test_neither_regenerate_nor_edit_destroys_anything_on_a_full_disk(
    page: Page,
    disk: Disk,
    application: Application,
    tmp_path: Path,
    action: str,
    changes: list[str],
) -> None:
    conversation = page.send("hello")
    page.wait_for("end")
    before = page.ask("open", conversation=conversation)["result"]["messages"]
    disk.fill(*changes)
    which = 1 if action == "regenerate" else 0
    text = {} if action == "regenerate" else {"text": "hello, edited"}
    answer = page.ask(action, message=before[which]["id"], **text)
    if "error" not in answer:
        page.wait_for("end", 2)
    assert ("error" in answer) == (changes != ["update"])
    disk.free()
    if "error" in answer:
        after = page.ask("open", conversation=conversation)["result"]["messages"]
        assert after == before
        return
    page.wait_for("saved")
    application.services.chat.close()
    question, reply = contents(page, conversation)
    assert question == ("hello" if action == "regenerate" else "hello, edited")
    assert reply.startswith("Hello! This is")


@pytest.mark.parametrize("action", ["regenerate", "edit"])
@pytest.mark.parametrize("after_restart", [False, True])
def test_a_failed_reply_leaves_the_versions_before_it(
    page: Page, application: Application, tmp_path: Path, action: str, after_restart: bool
) -> None:
    conversation = page.send("hello")
    page.wait_for("end")
    before = page.ask("open", conversation=conversation)["result"]["messages"]
    if action == "edit":
        page.ask("edit", message=before[0]["id"], text="die, please")
        which = 0
    else:
        page.ask("regenerate", message=before[1]["id"])
        which = 1
    page.wait_for("end", 2)
    failed = page.ask("open", conversation=conversation)["result"]["messages"]
    if action == "edit":
        assert failed[-1]["details"]["error"]
    assert before[which]["id"] in failed[which]["versions"]
    if after_restart:
        application.close()
        later = started(tmp_path)
        page = Page(later)
    assert "error" not in page.ask("select", message=before[which]["id"])
    again = page.ask("open", conversation=conversation)["result"]["messages"]
    assert [(one["id"], one["content"]) for one in again] == [
        (one["id"], one["content"]) for one in before
    ]
    page.services.chat.close()
