"""Models of other programs: folders as they lay them out, and what is said of each file."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.data.folders import DataFolder
from engine.files.gguf_header import read_header
from engine.models.catalogue import Catalogue
from engine.models.elsewhere import ollama
from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.scan import PROGRAMS, FoundModel, scan
from engine.models.library import known_models
from tests.rewritten_gguf import rewrite_gguf
from tests.tiny_gguf import write_tiny_gguf

Lay = Callable[[Path], Path]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture
def lay(model: Path) -> Lay:
    """A copy of the model at this place, with the folders it needs."""

    def copy(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model, path)
        return path

    return copy


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home = tmp_path / "home"
    home.mkdir()
    return Machine(home, "Linux", {}, tmp_path / "root")


def found(machine: Machine) -> dict[str, FoundModel]:
    """By program: these tests lay out one model for each."""
    models = scan(machine)
    by_program = {model.program: model for model in models}
    assert len(by_program) == len(models)
    return by_program


def manifest(layers: list[tuple[str, str]]) -> str:
    rows = [
        {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": f"sha256:{digest}"}
        for kind, digest in layers
    ]
    return json.dumps({"schemaVersion": 2, "layers": rows})


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def test_each_program_is_found_where_it_keeps_its_models(machine: Machine, lay: Lay) -> None:
    home = machine.home
    expected = {
        "LM Studio": lay(home / ".lmstudio/models/owner/repo/studio.gguf"),
        "Ollama": lay(home / f".ollama/models/blobs/sha256-{'a' * 64}"),
        "Jan": lay(home / ".local/share/Jan/data/llamacpp/models/m/jan.gguf"),
        "GPT4All": lay(home / ".local/share/nomic.ai/GPT4All/all.gguf"),
        "llama.cpp": lay(home / ".cache/llama.cpp/owner_repo_cpp.gguf"),
        "text-generation-webui": lay(home / "text-generation-webui/user_data/models/t/web.gguf"),
        "KoboldCpp": lay(home / "files/kobold.gguf"),
        "Hugging Face": lay(home / ".cache/huggingface/hub/models--o--r/snapshots/c0/hf.gguf"),
    }
    assert list(expected) == [name for name, _ in PROGRAMS]
    note = home / ".ollama/models/manifests/registry.example/library/tiny/8b"
    write(note, manifest([("model", "a" * 64), ("license", "b" * 64)]))
    jan = home / ".local/share/Jan/data/llamacpp/models/m/model.yml"
    write(jan, "name: Jan's tiny\nmodel_path: llamacpp/models/m/jan.gguf\nsize_bytes: 5\n")
    write(home / "mine.kcpps", json.dumps({"model_param": "files/kobold.gguf", "lora": None}))

    models = found(machine)

    assert {program: one.path for program, one in models.items()} == expected
    assert all(one.role == "model" and not one.problem for one in models.values())
    assert models["Ollama"].name == "tiny:8b"
    assert models["Jan"].name == "Jan's tiny"
    row = models["LM Studio"].to_json()
    assert row | {"parameters": 0, "bytes": 0} == {
        "program": "LM Studio",
        "path": str(expected["LM Studio"]),
        "name": "studio",
        "architecture": "llama",
        "parameters": 0,
        "quant": "F32",
        "bytes": 0,
        "role": "model",
        "problem": "",
    }
    assert row["bytes"] == expected["LM Studio"].stat().st_size
    assert row["parameters"] == sum(
        tensor.elements for tensor in read_header(expected["LM Studio"]).tensors
    )


def test_settings_and_variables_name_other_folders(machine: Machine, lay: Lay) -> None:
    home, disk = machine.home, machine.root / "disk"
    write(home / ".lmstudio-home-pointer", f"{disk}/studio\n")
    write(disk / "studio/settings.json", json.dumps({"downloadsFolder": str(disk / "models")}))
    studio = lay(disk / "models/o/r/one.gguf")
    write(home / ".config/nomic.ai/GPT4All.ini", f"[General]\nmodelPath={disk}/all\n")
    everything = lay(disk / "all/two.gguf")
    variables = {"LLAMA_CACHE": str(disk / "cpp"), "HF_HUB_CACHE": str(disk / "hub")}
    cpp = lay(disk / "cpp/models--o--r/snapshots/c0/three.gguf")
    hub = lay(disk / "hub/models--o--r/snapshots/c0/four.gguf")
    models = found(Machine(home, "Linux", variables, machine.root))
    assert {one.path for one in models.values()} == {studio, everything, cpp, hub}


def test_mac_and_windows_keep_them_elsewhere(machine: Machine, lay: Lay) -> None:
    home = machine.home
    mac = lay(home / "Library/Application Support/Jan/data/llamacpp/models/m/m.gguf")
    write(mac.with_name("model.yml"), "model_path: llamacpp/models/m/m.gguf\n")
    assert found(Machine(home, "Darwin"))["Jan"].path == mac
    roaming = home / "AppData/Roaming"
    windows = lay(roaming / "Jan/data/llamacpp/models/w/w.gguf")
    write(windows.with_name("model.yml"), "model_path: llamacpp/models/w/w.gguf\n")
    variables = {"APPDATA": str(roaming), "LOCALAPPDATA": str(home / "AppData/Local")}
    everything = lay(home / "AppData/Local/nomic.ai/GPT4All/all.gguf")
    models = found(Machine(home, "Windows", variables))
    assert (models["Jan"].path, models["GPT4All"].path) == (windows, everything)


def test_a_file_with_several_names_is_one_model(machine: Machine, lay: Lay) -> None:
    """A link of LM Studio's, a link of the Hub's cache and a hard link to the same blob."""
    repository = machine.home / ".cache/huggingface/hub/models--o--r"
    blob = lay(repository / "blobs/abc")
    for commit in ("c0", "c1"):
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / "m.gguf").symlink_to("../../blobs/abc")
    linked = machine.home / ".lmstudio/models/o/r/m.gguf"
    linked.parent.mkdir(parents=True)
    os.link(blob, linked)
    assert [(one.program, one.path) for one in scan(machine)] == [("LM Studio", linked)]


def test_folders_that_link_in_a_circle_end(machine: Machine, lay: Lay) -> None:
    path = lay(machine.home / ".lmstudio/models/o/m.gguf")
    (path.parent / "again").symlink_to(machine.home / ".lmstudio/models")
    assert [one.path for one in scan(machine)] == [path]


@pytest.mark.parametrize(
    ("architecture", "name", "role"),
    [
        ("clip", "whatever.gguf", "projector"),
        ("eagle3", "whatever.gguf", "drafter"),
        ("dflash", "whatever.gguf", "drafter"),
        ("gemma4-assistant", "whatever.gguf", "drafter"),
        ("bert", "whatever.gguf", "embedding"),
        ("t5", "whatever.gguf", "other"),
        ("llama", "mtp-Big-Q8_0.gguf", "drafter"),
        ("llama", "mmproj-F16.gguf", "projector"),
        ("llama", "Big-Q8_0.gguf", "model"),
    ],
)
def test_what_is_no_model_is_known_as_what_it_is(
    machine: Machine, architecture: str, name: str, role: str
) -> None:
    path = machine.home / ".lmstudio/models/o/r" / name
    path.parent.mkdir(parents=True)
    write_tiny_gguf(path, architecture=architecture)
    assert [(one.path, one.role) for one in scan(machine)] == [(path, role)]


def parts(model: Path, folder: Path, name: str) -> list[Path]:
    return [
        rewrite_gguf(
            model,
            folder / f"{name}-{number + 1:05d}-of-00003.gguf",
            numbers={"split.count": 3, "split.no": number},
            only_numbers=number > 0,
        )
        for number in range(3)
    ]


def test_the_parts_of_a_model_are_one(machine: Machine, model: Path) -> None:
    folder = machine.home / ".lmstudio/models/o/r"
    folder.mkdir(parents=True)
    files = parts(model, folder, "big")
    (one,) = scan(machine)
    assert (one.path, one.problem) == (files[0], "")
    assert one.bytes == sum(path.stat().st_size for path in files)


def test_what_cannot_be_read_says_why(machine: Machine, model: Path) -> None:
    models = machine.home / ".lmstudio/models/o/r"
    models.mkdir(parents=True)
    parts(model, models, "big")[1].unlink()
    parts(model, models, "lost")[0].unlink()
    write(models / "cut.gguf", "GGUF")
    write(models / "nothing.gguf", "")
    store = machine.home / ".ollama/models"
    write(store / "manifests/hub.example/owner/repo/Q4_K_M", manifest([("model", "c" * 64)]))
    write(store / "manifests/registry.example/library/odd/latest", '{"layers": [1, {}, null]}')
    write(store / "manifests/registry.example/library/odd/broken", "{")
    problems = {one.name: (one.program, one.problem) for one in scan(machine)}
    assert set(problems) == {
        *("big-00001-of-00003", "lost-00002-of-00003", "lost-00003-of-00003"),
        *("cut", "nothing", "hub.example/owner/repo:Q4_K_M"),
    }
    assert problems["hub.example/owner/repo:Q4_K_M"] == (
        "Ollama",
        "Ollama lists it, but its file is gone",
    )
    assert all(problem for _, problem in problems.values())


def test_a_file_that_ollama_wrote_its_own_way(machine: Machine, tmp_path: Path) -> None:
    blob = machine.home / f".ollama/models/blobs/sha256-{'d' * 64}"
    blob.parent.mkdir(parents=True)
    write_tiny_gguf(blob, architecture="gptoss")
    write(
        machine.home / ".ollama/models/manifests/registry.example/library/oss/20b",
        manifest([("model", "d" * 64)]),
    )
    (one,) = scan(machine)
    assert one.info is not None
    assert one.problem == ollama.obstacle(blob, one.info) != ""
    assert "made for Ollama" in one.problem


def test_they_are_models_to_choose_from(machine: Machine, lay: Lay, tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data").ensure()
    path = lay(machine.home / ".lmstudio/models/o/r/studio.gguf")
    write(path.with_name("cut.gguf"), "GGUF")
    write_tiny_gguf(path.with_name("mmproj.gguf"), architecture="clip")
    known = known_models(Catalogue(()), folder, scan(machine))
    listed = {(one.name, one.origin, one.program, bool(one.problem)) for one in known}
    assert listed == {
        ("studio F32", "elsewhere", "LM Studio", False),
    }
    assert known[0].id == str(path)
