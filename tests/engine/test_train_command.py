"""`forerun train` as its users run it: interrupted, resumed, two at once, refused, used."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.cli import main
from engine.cli.train_data import find_place
from engine.data.errors import IncompatiblePairError, UnknownModelError
from engine.data.folders import DataFolder
from engine.drafters.kinds.heads import HeadsKind
from engine.drafters.parse import parse_expression
from engine.drafters.registry import kind_named, plan_drafter
from engine.models.trained import CARD, WEIGHTS, TrainedDrafter, for_target, trained_drafters
from engine.train.corpus.disk import estimated_bytes
from engine.train.corpus.settings import CollectSettings
from engine.train.corpus.shards import Corpus, count
from engine.train.corpus.weights_choice import shares
from engine.train.fitting import free_name, plan_budget
from engine.train.unfinished import Progress, Unfinished, unfinished_names
from tests.engine.open_drafter import plan_context
from tests.tiny_gguf import write_tiny_gguf

ROOT = Path(__file__).resolve().parents[2]


def write_target(folder: Path, seed: int = 0) -> Path:
    name = folder / f"target-{seed}.gguf"
    return write_tiny_gguf(name, layers=6, hidden=64, context=1024, seed=seed)


def command(folder: Path, *arguments: str) -> list[str]:
    words = [sys.executable, "-m", "engine.cli", "train", *arguments]
    return [*words, "--data-dir", str(folder), "--threads", "1", "--json"]


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(folder, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def finished(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return [json.loads(line) for line in output.splitlines()]


def corpus_of(folder: Path) -> Path:
    (found,) = (folder / "training").iterdir()
    return found


@pytest.mark.slow
def test_a_collector_that_is_killed_goes_on_and_two_share_the_work(tmp_path: Path) -> None:
    target = write_target(tmp_path)
    options = ("collect", "--target", str(target), "--tokens", "2500")
    first = started(tmp_path, *options)
    assert first.stdout is not None
    assert json.loads(first.stdout.readline())["stage"] == "generating"
    first.send_signal(signal.SIGKILL)  # its child sees the end of its input, and ends by itself
    first.communicate(timeout=60)
    messages = [finished(process) for process in [started(tmp_path, *options) for _ in range(2)]]
    corpus = corpus_of(tmp_path)
    assert max(one[-1]["corpus"]["answer_tokens"] for one in messages) >= 2500
    ids = Counter(document.id for document in Corpus(corpus).documents(None))
    assert set(ids.values()) == {1}
    left = [path.name for path in (corpus / "shards").iterdir() if not path.name.isdigit()]
    assert left == []


def test_ctrl_c_keeps_what_was_collected(tmp_path: Path) -> None:
    target = write_target(tmp_path)
    process = started(tmp_path, "collect", "--target", str(target), "--tokens", "10000000")
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["done"] < 20:
        pass
    process.send_signal(signal.SIGINT)
    (*_, last) = finished(process)
    assert last["done"] is True
    assert last["corpus"]["answer_tokens"] == count(corpus_of(tmp_path)).answer_tokens > 0
    assert main(["train", "delete", "--target", str(target), "--data-dir", str(tmp_path)]) == 0
    assert list((tmp_path / "training").iterdir()) == []


def test_from_nothing_to_a_drafter_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, other = write_target(tmp_path), write_target(tmp_path, seed=3)
    notes = tmp_path / "notes.md"
    notes.write_text("the other hello of the fall\n" * 60)
    words = ("medusa", "--target", str(target), "--tokens", "1500", "--heads", "2")
    process = started(tmp_path, *words, "--epochs", "0.2", "--out", "mine", "--text", str(notes))
    messages = finished(process)
    stages = list(dict.fromkeys(message.get("stage") for message in messages[:-1]))
    assert stages == ["generating", "training", "writing", "checking"]
    card = messages[-1]["card"]
    assert card["kind"] == "medusa" and len(card["heldout"]["hits"]) == 2
    assert "--tokens 1500" in card["command"]
    assert any(one.id.startswith("text:") for one in Corpus(corpus_of(tmp_path)).documents(None))
    folder = ["--data-dir", str(tmp_path), "--prompt", "hello", "--max-tokens", "6"]
    asked = ["generate", "--target", str(target), "--drafter", "medusa:tree=4:mine", *folder]
    assert main([*asked, "--json", "--speculate", "always"]) == 0
    assert "medusa:tree=4:mine" in json.loads(capsys.readouterr().out)["stats"]["by_drafter"]
    asked = ["generate", "--target", str(other), "--drafter", "medusa:mine", *folder]
    assert main(asked) == 2
    assert "was trained for" in capsys.readouterr().err
    again = ["train", "medusa", "--target", str(target), "--tokens", "1500", "--out", "mine"]
    assert main([*again, "--data-dir", str(tmp_path)]) == 2
    assert "already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["medusa", "--tokens", "10", "--minutes", "1"], "not both"),
        (["medusa", "--tokens", "10", "--out", "a/b"], "letters"),
        (["medusa", "--tokens", "10", "--heads", "9"], "--heads: must be from 1 to 8"),
        (["medusa", "--tokens", "10", "--draft-vocab", "0"], "--draft-vocab: must be from 256"),
        (["medusa", "--tokens", "10", "--epochs", "nan"], "--epochs: must be above 0"),
        (["medusa", "--tokens", "0"], "--tokens: must be above 0"),
        (["medusa", "--minutes", "-1"], "--minutes: must be above 0"),
        (["medusa", "--threads", "-1"], "--threads: must be from 0"),
        (["medusa", "--tokens", "10", "--resume"], "no medusa training of"),
        (["medusa", "--tokens", "10", "--device", "cuda"], "no CUDA card"),
        (["early-exit", "--tokens", "10", "--keep-layers", "6"], "--keep-layers goes from 2 to 5"),
        (["early-exit", "--tokens", "10", "--published"], "--published"),
        (["curve", "--minutes", "0"], "--minutes: must be above 0"),
        (["curve"], "collect first"),
        (["eagle3", "--minutes", "0.1"], "too short"),
        (["collect", "--tokens", "0"], "above 0"),
        (["collect"], "--tokens or --minutes"),
        (["collect", "--tokens", "10", "--text", "no-such-folder"], "there is no"),
        (["delete"], "nothing was collected"),
    ],
)
def test_wrong_requests_are_one_line(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = write_target(tmp_path)
    asked = ["train", *options, "--target", str(target), "--data-dir", str(tmp_path)]
    assert main(asked) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "training").exists()


def wait_for_training(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["stage"] != "training":
        pass


@pytest.mark.parametrize(
    "killed", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["killed", "terminated"]
)
def test_a_training_that_was_ended_goes_on_whatever_was_collected_since(
    tmp_path: Path, killed: bool
) -> None:
    target = write_target(tmp_path)
    words = ("medusa", "--target", str(target), "--tokens", "1200", "--heads", "2")
    process = started(tmp_path, *words, "--epochs", "1000", "--out", "long")
    wait_for_training(process)
    tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    end = process.kill if killed else process.terminate
    end()
    process.communicate(timeout=60)
    psutil.wait_procs(tree, timeout=60)
    corpus = corpus_of(tmp_path)
    assert unfinished_names(corpus, "medusa") == ["long"]
    assert Unfinished(corpus, "medusa", "long").checkpoint.is_file()
    assert not (tmp_path / "heads").exists(), "nobody asked for what it has"
    finished(started(tmp_path, "collect", "--target", str(target), "--tokens", "2400"))
    messages = finished(started(tmp_path, *words, "--epochs", "0.1", "--resume"))
    card = messages[-1]["card"]
    assert card["name"] == "long" and card["corpus"]["answer_tokens"] < 2400
    assert card["training"]["learned_tokens"] > 0.1 * 2400, "steps of the first run count"
    assert "generating" not in {message.get("stage") for message in messages[:-1]}
    assert unfinished_names(corpus, "medusa") == []


def test_ctrl_c_in_a_training_makes_a_result_of_what_it_has(tmp_path: Path) -> None:
    target = write_target(tmp_path)
    words = ("medusa", "--target", str(target), "--tokens", "1200", "--heads", "2")
    process = started(tmp_path, *words, "--epochs", "1000", "--out", "long")
    wait_for_training(process)
    process.send_signal(signal.SIGINT)
    messages = finished(process)
    assert messages[-1]["card"]["name"] == "long"
    assert (tmp_path / "heads" / "target-0-medusa-long" / CARD).is_file()
    assert unfinished_names(corpus_of(tmp_path), "medusa") == []


def test_several_unfinished_trainings_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = write_target(tmp_path)
    place = find_place(argparse.Namespace(data_dir=tmp_path, target=str(target)))
    for name in ("a", "b"):
        Unfinished(place.folder, "medusa", name).write(Progress(3.0))
    asked = ["train", "medusa", "--target", str(target), "--data-dir", str(tmp_path)]
    assert main([*asked, "--resume"]) == 2
    assert "say with --out which one to go on with: a, b" in capsys.readouterr().err


def test_nothing_unfinished_is_lost_by_another_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = write_target(tmp_path)
    place = find_place(argparse.Namespace(data_dir=tmp_path, target=str(target)))
    Unfinished(place.folder, "medusa", "1").write(Progress(3.0))
    asked = ["train", "medusa", "--target", str(target), "--data-dir", str(tmp_path)]
    assert main([*asked, "--out", "1", "--minutes", "0.01"]) == 2
    assert main([*asked, "--out", "1", "--text", str(tmp_path / "none")]) == 2
    assert main([*asked, "--out", "1", "--chats"]) == 2
    assert "leave out --chats" in capsys.readouterr().err
    with Unfinished(place.folder, "medusa", "1").claimed():
        assert main([*asked, "--out", "1"]) == 2
    assert "is being trained" in capsys.readouterr().err
    assert Unfinished(place.folder, "medusa", "1").read() == Progress(3.0)
    names = unfinished_names(place.folder, "medusa")
    assert names == ["1"] and free_name(tmp_path / "heads", "t-medusa", names) == "2"


def test_fewer_collectors_run_where_memory_is_short(tmp_path: Path) -> None:
    path = str(write_target(tmp_path))
    settings = CollectSettings(str(tmp_path), path, 1000, sequences=64)
    assert shares(settings, 8, 64 * 10**9) == (8, 64)
    collectors, sequences = shares(settings, 8, 60_000_000)
    assert 1 <= collectors < 8 and sequences >= 16
    assert shares(settings, 8, 0) == (1, 4), "too little is tried all the same"


def test_the_size_is_estimated_from_tokens_and_from_time_at_this_machines_pace(
    tmp_path: Path,
) -> None:
    settings = CollectSettings(str(tmp_path), str(write_target(tmp_path)), answer_tokens=10**12)
    assert estimated_bytes(settings, 0, 600.0) > 1e14
    minute, night = replace(settings, seconds=60.0), replace(settings, seconds=36_000.0)
    assert estimated_bytes(minute, 0, 600.0) == estimated_bytes(night, 0, 1.0)
    small = replace(settings, answer_tokens=1000)
    assert estimated_bytes(small, 0, 600.0) == 2 * estimated_bytes(small, 500, 600.0)


def test_the_budget_is_what_the_user_gave() -> None:
    budget = plan_budget(30)
    assert 0.9 * 1800 < budget.collecting + budget.training < 1800


# Finding what was trained


def write_result(folder: Path, kind: str, name: str, target: Path, accepted: float) -> Path:
    result = folder / f"t-{kind}-{name}"
    result.mkdir(parents=True)
    (result / WEIGHTS).write_bytes(b"GGUF")
    owner = {"name": target.name, "sha256": sha256_of(target)}
    card = {"kind": kind, "name": name, "target": owner, "heldout": {"accepted": accepted}}
    (result / CARD).write_text(json.dumps(card))
    return result


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_best_of_one_s_own_comes_before_what_ships(tmp_path: Path) -> None:
    folder, shipped = DataFolder(tmp_path / "data"), tmp_path / "shipped"
    target, other = write_target(tmp_path), write_target(tmp_path, seed=3)
    assert for_target("eagle3", "", target, folder, shipped) is None
    write_result(shipped, "eagle3", "starter", target, 0.9)
    found = for_target("eagle3", "", target, folder, shipped)
    assert found is not None and found.shipped
    write_result(folder.heads, "eagle3", "a", target, 0.5)
    write_result(folder.heads, "eagle3", "b", target, 0.6)
    write_result(folder.heads, "eagle3", "c", other, 0.7)
    write_result(folder.heads, "medusa", "d", target, 0.8)
    best = for_target("eagle3", "", target, folder, shipped)
    assert best is not None and best.reference == "eagle3:b"
    with pytest.raises(IncompatiblePairError, match=r"trained for target-3\.gguf"):
        for_target("eagle3", "c", target, folder, shipped)
    assert for_target("medusa", "", other, folder, shipped) is None
    (folder.heads / "t-eagle3-b" / CARD).write_text("{")
    os.rename(folder.heads / "t-eagle3-a", folder.heads / ".part-a")
    assert [one.reference for one in trained_drafters(folder, shipped)] == [
        "medusa:d",
        "eagle3:c",
        "eagle3:starter",
    ]


def test_names_stand_for_files_and_are_shown_as_they_were_written(tmp_path: Path) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf", layers=4)
    (tmp_path / "x").mkdir()
    weights = write_tiny_gguf(tmp_path / "x" / WEIGHTS, layers=2)
    one = TrainedDrafter("medusa", "mine", tmp_path / "x", "t", "0", 0.5, shipped=False)
    known = {("medusa", ""): one, ("medusa", "mine"): one}
    known["early-exit", "cut"] = replace(one, kind="early-exit", name="cut")
    context = replace(
        plan_context(target, tmp_path),
        find_model=Path,
        find_trained=lambda kind, name: known.get((kind, name)),
        listed_heads=lambda kind: "hub:o/r/f.gguf" if kind == "eagle3" else "",
    )

    def find(text: str) -> Path:
        expression = parse_expression(text)
        kind = kind_named(expression.kind)
        assert isinstance(kind, HeadsKind)
        return kind.find(expression, context)

    assert find("medusa") == find("medusa:mine") == find("medusa:tree=8:mine") == weights
    assert find("medusa:tree=8") == weights
    assert find("eagle3") == Path("hub:o/r/f.gguf")
    assert find("medusa:other.gguf") == Path("other.gguf")
    with pytest.raises(UnknownModelError, match="forerun train medusa"):
        kind_named("medusa").plan(
            parse_expression("medusa"), replace(context, find_trained=lambda _k, _n: None), ()
        )
    cut = plan_drafter(parse_expression("early-exit:cut"), context)
    assert str(cut.expression) == "early-exit:cut" and cut.memory[0].info.block_count == 2
    skip = plan_drafter(parse_expression("first(ngram,early-exit:skip=3)"), context)
    assert str(skip.expression) == "first(ngram,early-exit:skip=3)" and skip.copies
    assert [one.info.block_count for one in skip.memory] == [3]
    with pytest.raises(UnknownModelError, match="forerun train early-exit --out none"):
        plan_drafter(parse_expression("early-exit:none"), context)
