"""Files that Forerun keeps for itself, when something else has written into them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.handlers import Handlers
from app.preferences import PreferencesFile
from app.services import Application
from engine.data.documents import DocumentError
from engine.data.errors import EngineError
from engine.data.folders import DataFolder
from engine.files.measurements import Measurements
from engine.files.stored import read_stored, write_stored
from engine.models.catalogue import Catalogue
from engine.models.hub_cache import recorded
from engine.models.trained import trained_drafters
from engine.train.corpus.settings import read_card
from engine.train.corpus.shards import count
from engine.train.unfinished import Unfinished
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels

HOSTILE = {
    "nothing": b"",
    "deep": b"[" * 100_000,
    "deep tables": b'{"a":' * 100_000,
    "not text": b"\xff\xfe\x00",
    "bytes": b'{"a": "\xe9"}',
    "a number": b"5",
    "a list": b"[1, 2]",
    "a table": b'{"x": 1}',
    "text": b'"x"',
    "null": b"null",
    "a large number": b'{"parts": 1e400}',
    "NaN": b'{"a": NaN}',
}


def _unfinished(folder: DataFolder) -> Any:
    return Unfinished(folder.root, "medusa", "x").read()


STORES: dict[str, tuple[str, Callable[[DataFolder], Any]]] = {
    "preferences": ("preferences.json", lambda at: PreferencesFile(at.preferences_file).current),
    "measurements": ("measurements.json", lambda at: Measurements(at.measurements_file).get("x")),
    "hub record": ("models/hub.json", recorded),
    "unfinished training": ("unfinished/medusa-x.json", _unfinished),
    "job": ("training/job.json", lambda at: None),
    "corpus": ("corpus.json", lambda at: read_card(at.root)),
    "shard": ("shards/00000/shard.json", lambda at: count(at.root)),
    "card": ("heads/a/card.json", trained_drafters),
    "catalogue": ("models.toml", Catalogue.load),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("store", STORES)
def test_a_wrong_file_is_an_error_of_ours_or_none(
    tmp_path: Path, store: str, content: bytes
) -> None:
    """And the page starts beside it, whichever file it is."""
    name, read = STORES[store]
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    try:
        read(DataFolder(tmp_path))
    except EngineError as error:
        assert str(error).isprintable() and "\n" not in str(error)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    application = Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    try:
        hello = Handlers(application.services).hello({"conversation": None})
        json.dumps(hello, allow_nan=False).encode()
        if store in ("preferences", "job", "catalogue") and content not in (b"", b'{"x": 1}'):
            assert file.name in hello["problem"] and not file.exists()
            kept = list(file.parent.glob(f"{file.stem}.unreadable*"))
            assert kept and all(one.read_bytes() == content for one in kept)
            assert any(str(one) in hello["problem"] for one in kept)
    finally:
        application.close()


def test_half_a_character_in_the_settings_opens_as_a_whole_one(tmp_path: Path) -> None:
    """As earlier versions could store: every load of the page failed."""
    file = PreferencesFile(tmp_path / "preferences.json")
    file.set_settings({"system_prompt": "be kind \ud83d"})
    stored = json.loads((tmp_path / "preferences.json").read_text())
    assert stored["settings"]["system_prompt"] == "be kind �"
    stored["settings"]["system_prompt"] = "be kind \ud83d"
    (tmp_path / "preferences.json").write_text(json.dumps(stored))
    again = PreferencesFile(tmp_path / "preferences.json")
    assert again.problem is not None and "nothing else is changed" in again.problem
    assert again.current.settings.system_prompt == "be kind �"
    third = PreferencesFile(tmp_path / "preferences.json")  # it is told once
    assert not third.problem and third.current == again.current


def test_nothing_is_stored_that_could_not_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    write_stored(file, {"a": (1, 2)})
    before = file.read_bytes()
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    for wrong in ("\ud83d", float("nan"), 2**70, deep):
        with pytest.raises(DocumentError):
            write_stored(file, {"a": wrong})
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]
    assert read_stored(file, lambda content: content["a"], None).content == [1, 2]


def test_every_wrong_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for number in range(3):
        file.write_text(f"wrong {number}")
        assert read_stored(file, lambda content: content, 5).content == 5
    kept = sorted(path.read_text() for path in tmp_path.iterdir())
    assert kept == ["wrong 0", "wrong 1", "wrong 2"]
