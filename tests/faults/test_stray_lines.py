"""Stray lines on the stdout of real children: downloads and trainings go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.services import Application
from engine.data.errors import DownloadError
from engine.data.folders import DataFolder
from engine.downloads.hub_list import list_files
from engine.downloads.manager import Downloads
from engine.models.entry import HubSource
from tests.app.test_training import FORM, WAIT, Page, application
from tests.hub_server import HubFile, HubServer
from tests.tiny_gguf import write_tiny_gguf

SOURCE = HubSource("owner/tiny-GGUF", "tiny-Q8_0.gguf")
STRAY = r"""
import os, sys
if any(part.startswith("engine.") and part.endswith("child") for part in sys.orig_argv):
    os.write(1, b"a library's words\n{}\n[1]\n{\"event\": 5}\n\xff\xfe\n")
    os.write(1, b"x" * 10_000_000 + b"\n")
"""
DEATH = """
import os, sys
if any(part.startswith("engine.") and part.endswith("child") for part in sys.orig_argv):
    os.write(1, b'{"event": "no')
    os._exit(3)
"""


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Downloads]:
    content = write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    with HubServer({(SOURCE.repo, SOURCE.file): HubFile(content)}) as server:
        for name, value in server.environment(tmp_path / "hub").items():
            monkeypatch.setenv(name, value)
        manager = Downloads(DataFolder(tmp_path / "data"))
        yield manager
        manager.close()


def start_up(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What every child process runs first."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_downloads_go_on(
    downloads: Downloads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_up(tmp_path / "stray", STRAY, monkeypatch)
    done = downloads.wait(downloads.start(SOURCE).id, WAIT)
    assert (done.state, done.message) == ("done", "")
    assert [file.name for file in list_files(SOURCE.repo)] == [SOURCE.file]


def test_a_child_that_dies_in_a_line_costs_one_download(
    downloads: Downloads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_up(tmp_path / "death", DEATH, monkeypatch)
    failed = downloads.wait(downloads.start(SOURCE).id, WAIT)
    assert failed.state == "failed" and "exit code 3" in failed.message
    with pytest.raises(DownloadError, match="ended unexpectedly"):
        list_files(SOURCE.repo)
    monkeypatch.delenv("PYTHONPATH")
    assert downloads.wait(downloads.retry(failed.id).id, WAIT).state == "done"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_listener_that_fails_costs_nobody_his_download(downloads: Downloads) -> None:
    calls: list[int] = []

    def listener() -> None:
        calls.append(1)
        raise ZeroDivisionError

    downloads.subscribe(listener)
    for repository in (SOURCE, HubSource("owner/none-GGUF", "none.gguf")):
        with pytest.raises(ZeroDivisionError):
            downloads.start(repository)
    states = [downloads.wait(job.id, WAIT).state for job in downloads.jobs()]
    assert len(states) == 2 and not {"waiting", "running"} & set(states) and calls


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    built = application(tmp_path)
    yield built
    built.close()


def test_a_training_goes_on(app: Application) -> None:
    page = Page(app)
    assert page.ask("train", **FORM | {"name": "garbled"}) is None
    job = page.wait(lambda job: job.state not in ("running", "stopping"))
    assert job.state == "done" and job.card is not None and job.card["name"] == "garbled"
    assert len(job.points) == 20, "every step of it was understood"
