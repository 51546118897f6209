"""Folders with published heads in the drafter dropdown, from files to options."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.choices import Option, drafter_options, target_options
from app.model_service import LibraryModelService
from engine.cli import main
from engine.data.folders import DataFolder
from engine.heads.folder import heads_folder
from engine.heads.medusa_file import CHECKPOINT_NAMES
from engine.models.catalogue import add_folder
from tests.eagle_files import EagleSizes, write_eagle
from tests.engine.head_files import medusa_arrays, write_safetensors, write_torch
from tests.tiny_gguf import write_tiny_gguf

HIDDEN, VOCABULARY = 64, 300


class HeadsFolders:
    """A data folder, and a folder of the user's with one target in it."""

    def __init__(self, folder: Path) -> None:
        self.data = DataFolder(folder / "data").ensure()
        self.own = folder / "own"
        self.own.mkdir()
        self.target = write_tiny_gguf(self.own / "target.gguf", vocabulary_size=VOCABULARY)
        add_folder(self.data, self.own)
        self.service = LibraryModelService(self.data)

    def eagle(
        self,
        name: str = "EAGLE",
        hidden: int = HIDDEN,
        vocabulary: int = VOCABULARY,
        torch: bool = False,
    ) -> Path:
        return write_eagle(self.own / name, EagleSizes(hidden, vocabulary), torch)

    def options(self) -> dict[str, Option]:
        models, target = self.service.models(), str(self.target)
        options = drafter_options(models, target, self.service.obstacle)
        return {option.value: option for option in options}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeadsFolders:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return HeadsFolders(tmp_path)


@pytest.mark.parametrize("torch", [False, True], ids=["safetensors", "torch"])
def test_an_eagle_folder_is_offered_for_the_target_it_fits(
    folders: HeadsFolders, torch: bool
) -> None:
    value = f"eagle:{folders.eagle(torch=torch)}"
    option = folders.options()[value]
    assert option.reason is None
    assert (option.label, option.group, option.tuning) == (
        "EAGLE", "Models that can draft", ("tree",),
    )  # fmt: skip
    assert option.detail.split(" · ")[1:] == ["EAGLE-1/2", "in your folder"]
    targets = {one.value: one.reason for one in target_options(folders.service.models())}
    assert targets[str(folders.own / "EAGLE")] == "needs EAGLE-1/2"
    assert folders.service.obstacle(str(folders.own / "EAGLE"), str(folders.target)) == (
        "the target needs EAGLE-1/2"
    )


@pytest.mark.parametrize(
    ("hidden", "vocabulary", "reason"),
    [
        (32, VOCABULARY, "made for a hidden size of 32, not 64"),
        (HIDDEN, 99, "made for a vocabulary of 99 tokens, not 300"),
    ],
)
def test_an_eagle_folder_for_another_target_says_why(
    folders: HeadsFolders, hidden: int, vocabulary: int, reason: str
) -> None:
    value = f"eagle:{folders.eagle(hidden=hidden, vocabulary=vocabulary)}"
    option = folders.options()[value]
    assert (option.reason, option.group) == (reason, "Not for this target")


def test_a_folder_that_changes_is_read_again(folders: HeadsFolders) -> None:
    folder = folders.eagle()
    value = f"eagle:{folder}"
    assert folders.options()[value].reason is None
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-100])
    assert "is damaged" in (folders.options()[value].reason or "")
    (folder / "model.safetensors").write_bytes(weights)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "gelu"}))
    assert folders.options()[value].reason == "an EAGLE layer with gelu is not known"
    shutil.rmtree(folder)
    assert value not in folders.options()


@pytest.mark.parametrize("name", CHECKPOINT_NAMES)
def test_a_medusa_folder_is_offered_too(folders: HeadsFolders, name: str) -> None:
    write = write_torch if name.endswith(".pt") else write_safetensors
    for folder, hidden in (("fits", HIDDEN), ("other", 32)):
        (folders.own / folder).mkdir()
        write(folders.own / folder / name, medusa_arrays(hidden, VOCABULARY))
    options = folders.options()
    assert options[f"medusa:{folders.own / 'fits'}"].reason is None
    assert "hidden size" in (options[f"medusa:{folders.own / 'other'}"].reason or "")


def test_what_is_no_eagle_layer_is_not_taken_for_one(folders: HeadsFolders) -> None:
    """A whole model, another small one, EAGLE-3, and folders that lack something."""
    whole, small, eagle3, bare, damaged = (folders.own / name for name in "abcde")
    config = {"num_hidden_layers": 1}
    for folder in (whole, small, eagle3, damaged):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
    arrays = medusa_arrays(HIDDEN, 10, heads=1)
    weight = arrays["0.0.linear.weight"]
    (whole / "config.json").write_text(json.dumps({"num_hidden_layers": 12}))
    write_safetensors(whole / "model.safetensors", {"fc.weight": weight})
    write_safetensors(small / "model.safetensors", {"lm_head.weight": weight})
    write_torch(eagle3 / "pytorch_model.bin", {"fc.weight": weight, "midlayer.a": weight})
    bare.mkdir()
    write_safetensors(bare / "model.safetensors", {"fc.weight": weight})
    (damaged / "config.json").write_text("{")
    write_safetensors(damaged / "model.safetensors", {"fc.weight": weight})
    assert [heads_folder(one) for one in (whole, small, bare, damaged, folders.own)] == [None] * 5
    offered = [value for value in folders.options() if str(folders.own) in value]
    assert sorted(offered) == [f"eagle3:{eagle3}", f"model:{folders.target}"]
    assert "convert-eagle3" in (folders.options()[f"eagle3:{eagle3}"].reason or "")


def test_the_command_line_checks_folders(
    folders: HeadsFolders, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data-dir", str(folders.data.root)]
    check = ["models", "check", *data, str(folders.target)]
    assert main([*check, str(folders.eagle())]) == 0
    assert "EAGLE can draft for target" in capsys.readouterr().out
    assert main([*check, str(folders.eagle("wrong", hidden=32))]) != 0
    assert "hidden size of 32, not 64" in capsys.readouterr().err
    assert main(["models", "list", "--downloaded", *data]) == 0
    assert str(folders.own / "wrong") in capsys.readouterr().out
