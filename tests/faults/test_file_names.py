"""File names that are no text: they are listed under a readable name, and can be loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.handlers import Handlers
from app.model_service import LibraryModelService
from app.services import Application
from engine.data.documents import compact_json
from engine.data.errors import UnknownModelError
from engine.data.folders import DataFolder
from engine.data.request import GenerateRequest, LoadRequest
from engine.downloads.manager import Downloads
from engine.files.measurements import Measurements, measurement_key
from engine.files.reference import file_of, reference_of
from engine.models.catalogue import Catalogue, add_folder, remove_folder
from engine.models.library import known_models
from engine.models.locate import locate
from engine.process.client import EngineClient
from tests.app.page_side import WAIT, Page
from tests.fakes_engine import FakeEngine
from tests.tiny_gguf import write_tiny_gguf

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    "not UTF-8": b"caf\xe9.gguf",
    "an escape sequence": b"red\x1b[31m.gguf",
    "a line end": b"two\nlines.gguf",
    "turned around": "a\u202egpj.gguf".encode(),
    "a percent sign and a byte": b"100%25\xff.gguf",
    "Chinese": "模型.gguf".encode(),
    "a percent sign": b"100%41.gguf",
}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")


def _application(folder: DataFolder) -> Application:
    return Application(EngineClient(folder), LibraryModelService(folder), Downloads(folder), folder)


def _write(folder: Path, name: bytes) -> Path:
    path = folder / os.fsdecode(name)
    folder.mkdir(parents=True, exist_ok=True)
    return write_tiny_gguf(path, name="")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_model_is_listed_named_and_found(tmp_path: Path, name: bytes) -> None:
    folder = DataFolder(tmp_path).ensure()
    path = _write(folder.models, name)
    catalogue = Catalogue.load(folder)
    model = next(one for one in known_models(catalogue, folder) if one.path == path)
    assert model.problem == "" and model.name and model.name.isprintable()
    assert model.id.isprintable()
    json.dumps(model.to_json(), default=str, ensure_ascii=False).encode()
    assert locate(model.id, catalogue, folder).path == path
    assert locate(str(path), catalogue, folder).id == model.id
    assert file_of(reference_of(path)) == path
    measured = Measurements(folder.measurements_file)
    measured.put(measurement_key("passes", path, "x"), {"a": 1})
    assert measured.get(measurement_key("passes", path, "x")) == {"a": 1}


def test_other_names_stay_as_they_are(tmp_path: Path) -> None:
    for name in ("a.gguf", "Qwen 2.5 (1), 中文 100%41.gguf", "ü.gguf"):
        assert reference_of(Path(name)) == name and file_of(name) == Path(name)
    assert file_of("gone%E9.gguf") == Path("gone%E9.gguf")
    assert file_of("~nobody-of-that-name/x.gguf") == Path("~nobody-of-that-name/x.gguf")


@pytest.mark.parametrize("reference", ["x" * 5_000 + ".gguf", "a%00.gguf", "./\0.gguf", "%ff.gguf"])
def test_what_can_be_no_file_is_said(tmp_path: Path, reference: str) -> None:
    folder = DataFolder(tmp_path)
    with pytest.raises(UnknownModelError):
        locate(reference, Catalogue.load(folder), folder)


def test_the_page_lists_models_beside_a_bad_name(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path).ensure()
    for name in NAMES.values():
        _write(folder.models, name)
    (folder.models / "loop.gguf").symlink_to(folder.models / "loop.gguf")
    os.mkfifo(folder.models / "pipe.gguf")
    (folder.models / "folder.gguf").mkdir()
    application = Application(FakeEngine(), LibraryModelService(folder), Downloads(folder), folder)
    handlers = Handlers(application.services)
    session = handlers.hello({})["session"]
    request = {"session": session, "action": "options", "arguments": {"target": None}}
    answer = handlers.call(request)
    compact_json(answer).encode()
    here = [one for one in answer["result"]["targets"] if one["group"] == "On this computer"]
    assert sum(one["reason"] is None for one in here) >= len(NAMES)
    assert any("loop.gguf" in one["value"] and one["reason"] for one in here)
    application.close()


def test_a_folder_of_the_user_may_have_any_name(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data").ensure()
    own = tmp_path / os.fsdecode(b"mod\xe8les \x1b")
    path = _write(own, b"a.gguf")
    add_folder(folder, own)
    folder.user_catalogue_file.read_text(encoding="utf-8")
    catalogue = Catalogue.load(folder)
    assert catalogue.folders == (own,)
    assert any(model.path == path for model in known_models(catalogue, folder))
    remove_folder(folder, own)
    assert Catalogue.load(folder).folders == ()


@pytest.mark.parametrize("name", [NAMES["not UTF-8"], NAMES["an escape sequence"]])
def test_a_model_of_any_name_is_loaded_and_writes(tmp_path: Path, name: bytes) -> None:
    folder = DataFolder(tmp_path / "data").ensure()
    reference = reference_of(_write(tmp_path / "own", name))
    client = EngineClient(folder)
    try:
        loaded = client.load(LoadRequest(reference, f"model:{reference}", threads=1))
        assert loaded.target.id == reference and loaded.target.path.isprintable()
        run = client.generate(GenerateRequest(raw_prompt="hello", max_tokens=4))
        assert [event for event in run.events()][-1]
        assert all(line.text.isprintable() for line in client.log_lines())
    finally:
        client.close()


def test_what_the_page_offers_of_an_odd_name_is_what_it_loads(tmp_path: Path) -> None:
    """From the list through the quoting of a group into the engine, and again at the next start."""
    folder = DataFolder(tmp_path / "data").ensure()
    own = tmp_path / 'my "models", (x)'
    names = (b'a","b).gguf', b" tree=5:x,.gguf", b"caf\xe9, (1).gguf")
    for name in names:
        _write(own, name)
    add_folder(folder, own)
    application = Application(
        EngineClient(folder), LibraryModelService(folder), Downloads(folder), folder
    )
    page, loading = Page(application), application.services.loading
    page.ask("settings", changes={"context_length": 256})
    listed = page.ask("options", target=None)["result"]["targets"]
    target = next(one["value"] for one in listed if "models" in one["value"])
    offered = page.ask("options", target=target)["result"]["drafters"]
    values = [one["value"] for one in offered if one["reason"] is None and "models" in one["value"]]
    assert len(values) == len(names) - 1
    for value in values:
        pair = {"target": target, "drafters": ["ngram", value]}
        page.ask("load", **pair)
        loading.wait(WAIT)
        assert loading.state()["error"] is None and loading.state()["loaded_pair"] == pair
    application.close()
    again = Application(
        EngineClient(folder), LibraryModelService(folder), Downloads(folder), folder
    )
    again.load_last()
    again.services.loading.wait(WAIT)
    assert again.services.loading.state()["loaded_pair"] == pair
    again.close()


def test_a_command_shows_and_takes_them(tmp_path: Path) -> None:
    path = _write(tmp_path / "data" / "models", NAMES["an escape sequence"])
    for arguments in (["list", "--downloaded"], ["list", "--json"], ["inspect", str(path)]):
        done = _models(*arguments, "--data-dir", str(tmp_path / "data"))
        assert done.returncode == 0 and b"\x1b" not in done.stdout + done.stderr
    done = _models("inspect", str(path) + "\x1b[2J.gguf")
    assert done.returncode == 2 and b"\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def _models(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "engine.cli", "models", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)
