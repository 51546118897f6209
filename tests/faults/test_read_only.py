"""The data folder turns read-only under a running page: every answer says so, and none is lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.launch import run_page
from app.services import Application
from engine.data.folders import DataFolder
from tests.app.page_side import WAIT, Page
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders have no such mode there")
NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """The system's own checks do not hold for its administrator."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def give_away(folder: Path) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)


def set_modes(folder: Path, folders: int, files: int) -> None:
    for path in (*folder.rglob("*"), folder):
        path.chmod(folders if path.is_dir() else files)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Reached without rights to the folders above it."""
    place = tmp_path / "data"
    DataFolder(place).ensure()
    before = Path.cwd()
    os.chdir(place)
    yield place
    os.chdir(before)
    set_modes(place, 0o700, 0o600)


def test_a_page_goes_on_and_says_what_it_cannot_keep(folder: Path) -> None:
    application = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(Path(".")))
    application.load_last()
    application.services.loading.wait(WAIT)
    page = Page(application)
    conversation = page.send("hello")
    page.wait_for("end")
    give_away(folder)
    set_modes(folder, 0o500, 0o400)
    with as_nobody():
        assert page.ask("view", changes={"theme": "dark"})["error"]["kind"] == "StorageError"
        assert page.ask("settings", changes={"top_k": 7})["error"]["kind"] == "StorageError"
        page.ask("load", target="starter", drafters=[])
        page.services.loading.wait(WAIT)
        state = page.services.loading.state()
        assert state["error"]["kind"] == "StorageError" and state["loaded"] is not None
        opened = page.ask("open", conversation=conversation)["result"]
        assert len(opened["messages"]) == 2
    set_modes(folder, 0o700, 0o600)
    assert "error" not in page.ask("view", changes={"theme": "light"})
    page.send("hello again", conversation)
    page.wait_for("end", 2)
    application.close()


def test_a_start_in_a_read_only_folder_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    give_away(folder)
    set_modes(folder, 0o500, 0o400)
    with as_nobody():
        code = run_page(["--no-browser", "--data-dir", "."])
    error = capsys.readouterr().err
    assert code == 1 and error.startswith("forerun: ") and error.count("\n") == 1
    assert "writable" in error
