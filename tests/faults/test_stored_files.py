"""Files that Forerun keeps and something else has spoiled: put aside, named, and on it goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.services import Application
from engine.data.folders import DataFolder
from engine.files.measurements import Measurements
from engine.models.entry import HubSource
from engine.models.hub_cache import record, recorded
from tests.app.page_side import Page
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels

WRONG = {
    "empty": b"",
    "half": b'{"settings": {',
    "null": b"null",
    "number": b"5",
    "list": b"[5]",
    "text": b'"x"',
    "other": b'{"a": {"b": 1}}',
    "deep": b"[" * 100_000,
    "not UTF-8": b'{"settings": "\xff\xfe"}',
    "zeros": b"\x00" * 300,
    "long number": b"1" * 5000,
}
spoiled = pytest.mark.parametrize("content", WRONG.values(), ids=WRONG.keys())


def put_aside(path: Path) -> bytes:
    return path.with_name(f"{path.stem}.unreadable{path.suffix}").read_bytes()


@spoiled
@pytest.mark.parametrize("name", ["preferences.json", "training/job.json"])
def test_the_page_starts_and_names_the_file(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    application = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    application.load_last()
    page = Page(application)
    assert path.name in page.hello["problem"] and "unreadable" in page.hello["problem"]
    assert "error" not in page.ask("view", changes={"theme": "dark"})
    assert put_aside(path) == content
    application.close()


@pytest.mark.parametrize(
    "change",
    [{"target": 5}, {"drafters": "ngram"}, {"drafters": [5]}, {"settings": {"top_k": "many"}},
     {"settings": []}, {"view": 5}, {"drafters": None}],
)  # fmt: skip
def test_preferences_of_the_wrong_kind_do_not_end_the_start(
    tmp_path: Path, change: dict[str, object]
) -> None:
    sound: dict[str, object] = {"settings": {}, "view": {}, "target": None, "drafters": []}
    (tmp_path / "preferences.json").write_text(json.dumps(sound | change))
    application = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    application.load_last()
    assert "preferences.json" in Page(application).hello["problem"]
    application.close()


@pytest.mark.parametrize("pid", [-1, 2**70, "x", None])
def test_a_training_of_an_impossible_process_is_put_aside(tmp_path: Path, pid: object) -> None:
    (tmp_path / "training").mkdir()
    request = {"kind": "medusa", "target": "starter", "name": "mine"}
    job = {"request": request, "state": "running", "pid": pid, "progress": {},
           "points": [], "message": "", "card": None}  # fmt: skip
    (tmp_path / "training" / "job.json").write_text(json.dumps(job))
    application = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    assert application.services.training.job is None
    application.close()


@spoiled
def test_measurements_are_made_again_and_the_file_is_kept(tmp_path: Path, content: bytes) -> None:
    if content == WRONG["other"]:
        return  # they are those of an entry that nobody asks for
    file = tmp_path / "measurements.json"
    file.write_bytes(content)
    measured = Measurements(file)
    assert measured.get("a") is None
    measured.put("a", {"b": 1})
    assert measured.get("a") == {"b": 1} and put_aside(file) == content


@spoiled
def test_a_damaged_record_of_fetched_files_is_kept(tmp_path: Path, content: bytes) -> None:
    folder = DataFolder(tmp_path).ensure()
    folder.hub_record_file.write_bytes(content)
    assert recorded(folder) == ()
    source = HubSource("owner/name", "file.gguf", "main")
    record(folder, source)
    assert recorded(folder) == (source,) and put_aside(folder.hub_record_file) == content


def test_a_second_damage_does_not_replace_what_the_first_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "measurements.json"
    for content in ("first", "second", "third"):
        file.write_text(content)
        assert Measurements(file).get("a") is None
    kept = sorted(path.read_text() for path in tmp_path.glob("measurements.unreadable*.json"))
    assert kept == ["first", "second", "third"]


def test_a_folder_in_the_place_of_a_file_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "preferences.json").mkdir()
    application = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    assert "preferences.json" in Page(application).hello["problem"]
    assert (tmp_path / "preferences.unreadable.json").is_dir()
    application.close()
