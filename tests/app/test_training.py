"""Training behind the page, with a scripted trainer as the process."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.handlers import Handlers
from app.services import Application
from app.training import Job
from app.training_request import training_request
from engine.data.errors import BadOptionError
from engine.data.folders import DataFolder
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels

TRAINER = (sys.executable, "-m", "tests.scripted_trainer")
WAIT = 60.0
FORM = {"kind": "medusa", "target": "starter", "name": "mine", "minutes": 5, "tokens": None}


def application(folder: Path) -> Application:
    return Application(FakeEngine(), FakeModels(), FakeDownloads(), DataFolder(folder), TRAINER)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    built = application(tmp_path)
    yield built
    built.close()


class Page:
    def __init__(self, app: Application) -> None:
        self._handlers = Handlers(app.services)
        self._training = app.services.training
        self.hello = self._handlers.hello({})

    def ask(self, action: str, **arguments: Any) -> Any:
        answer = self._handlers.call(
            {"session": self.hello["session"], "action": action, "arguments": arguments}
        )
        return answer.get("result", answer.get("error"))

    def wait(self, happened: Callable[[Job], bool]) -> Job:
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            job = self._training.job
            if job is not None and happened(job):
                return job
            threading.Event().wait(0.01)
        raise AssertionError(self._training.job)


@pytest.fixture
def page(app: Application) -> Page:
    return Page(app)


def test_a_training_reports_until_its_card(app: Application, page: Page, tmp_path: Path) -> None:
    assert page.hello["training"] == {"k": "training", "job": None}
    prompts = tmp_path / "p.jsonl"
    prompts.write_text("{}")
    assert page.ask("train", **FORM, texts=[str(tmp_path), str(prompts)], chats=True) is None
    assert page.ask("train", **FORM)["message"].startswith("a training is running")
    app.services.training.wait(WAIT)
    job = page.wait(lambda job: job.state == "done")
    assert job.card is not None and job.card["name"] == "mine"
    assert job.request.drafter == "medusa:mine"
    firsts = [rates[0] for _, rates in job.points]
    assert len(firsts) == 20 and firsts == sorted(firsts)
    arguments = json.loads((tmp_path / "arguments.json").read_text())
    assert arguments == [
        "--data-dir", str(tmp_path), "medusa", "--target", "starter", "--out", "mine", "--json",
        "--text", str(tmp_path), "--prompts", str(prompts), "--chats", "--minutes", "5",
        "--heads", "4",
    ]  # fmt: skip
    assert page.ask("train_step", step="dismiss") is None
    assert Page(app).hello["training"]["job"] is None


def test_stop_keeps_the_best_so_far(page: Page) -> None:
    page.ask("train", **FORM | {"name": "waits"})
    page.wait(lambda job: bool(job.points))
    assert "is running" in page.ask("train_step", step="dismiss")["message"]
    assert "is running" in page.ask("train_delete", name="x")["message"]
    page.ask("train_step", step="stop")
    job = page.wait(lambda job: job.state == "done")
    assert job.card is not None


def test_a_second_stop_ends_what_does_not_listen(page: Page) -> None:
    page.ask("train", **FORM | {"name": "stubborn"})
    page.wait(lambda job: bool(job.points))
    page.ask("train_step", step="stop")
    page.ask("train_step", step="stop")
    assert page.wait(lambda job: job.state == "stopped").card is None


def test_a_failure_is_told_in_the_command_s_words(page: Page) -> None:
    page.ask("train", **FORM | {"name": "fails"})
    job = page.wait(lambda job: job.state == "failed")
    assert job.message == "the disk is full: free some space"


def test_closing_interrupts_and_a_restart_resumes(tmp_path: Path) -> None:
    app = application(tmp_path)
    page = Page(app)
    page.ask("train", **FORM | {"name": "waits"})
    seen = page.wait(lambda job: len(job.points) > 2)
    app.close()
    assert not psutil.pid_exists(seen.pid)
    again = application(tmp_path)
    page = Page(again)
    job = page.wait(lambda job: job.state == "interrupted")
    assert len(job.points) > 2
    page.ask("train_step", step="resume")
    page.wait(lambda job: job.state == "running" and bool(job.progress))
    assert json.loads((tmp_path / "arguments.json").read_text())[-1] == "--resume"
    again.close()


def test_what_outlived_a_crash_is_ended(tmp_path: Path) -> None:
    first = application(tmp_path)
    page = Page(first)
    page.ask("train", **FORM | {"name": "waits"})
    job = page.wait(lambda job: len(job.points) > 2)
    second = application(tmp_path)  # as if the first had been killed
    left = second.services.training.job
    assert left is not None and left.state == "interrupted"
    first.services.training.wait(WAIT)
    assert not psutil.pid_exists(job.pid)
    first.close()
    second.close()


@pytest.mark.parametrize("content", ["{", "{}", "[]", '{"request": {"kind": "x", "name": "y"}}'])
def test_a_damaged_file_is_put_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "job.json").write_text(content)
    app = application(tmp_path)
    assert app.services.training.job is None
    assert (tmp_path / "training" / "job.unreadable.json").exists()
    app.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "lstm"}, "kind must be"),
        ({"target": None}, "choose a target"),
        ({"name": "../x"}, "the name may"),
        ({"minutes": 0}, "minutes must be"),
        ({"minutes": 1.5}, "minutes must be"),
        ({"tokens": 5000}, "either minutes or tokens"),
        ({"minutes": None}, "either minutes or tokens"),
        ({"texts": ["notes"]}, "whole path"),
        ({"heads": 99}, "heads must be"),
        ({"draft_vocab": "all"}, "draft vocab must be"),
    ],
)
def test_wrong_values_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOptionError, match=message):
        training_request(FORM | change)


def test_a_missing_folder_and_a_full_disk_are_told_first(page: Page, tmp_path: Path) -> None:
    missing = page.ask("train", **FORM, texts=[str(tmp_path / "nowhere")])
    assert "does not exist" in missing["message"]
    large = FORM | {"minutes": None, "tokens": 1_000_000_000, "target": "coder"}
    assert "are free" in page.ask("train", **large)["message"]
    assert page.hello["training"]["job"] is None


def test_whether_it_will_pay_is_told_before(page: Page) -> None:
    good = page.ask(
        "train_forecast", **FORM | {"kind": "eagle3", "tokens": 50_000, "minutes": None}
    )
    assert good["pays"] is True and "1.20 times" in good["text"] and "50,000" in good["text"]
    bad = page.ask("train_forecast", **FORM)
    assert bad["pays"] is False and "probably not pay" in bad["text"]
    unknown = page.ask("train_forecast", **FORM | {"target": "coder"})
    assert unknown["pays"] is None and "not known yet" in unknown["text"]


def test_what_cannot_be_learned_is_told_before(page: Page) -> None:
    answer = page.ask("train_forecast", **FORM | {"kind": "eagle3", "target": "gemma"})
    assert answer["possible"] is False and "cannot be trained for eagle3" in answer["text"]
    assert page.ask("train_forecast", **FORM)["possible"] is True
    tokens = FORM | {"minutes": None, "tokens": 50_000}
    assert page.ask("train_forecast", **tokens)["bytes"] == 50_000 * 576 * 16
    assert page.ask("train_forecast", **FORM)["bytes"] is None


def test_a_file_that_cannot_be_written_does_not_hold_a_training_up(
    page: Page, tmp_path: Path
) -> None:
    (tmp_path / "training" / "job.json").mkdir(parents=True)
    page.ask("train", **FORM)
    assert page.wait(lambda job: job.state == "done").card is not None


def test_options_tell_targets_room_and_data(page: Page, tmp_path: Path) -> None:
    shard = tmp_path / "training" / "starter-12345678" / "shards" / "00000"
    shard.mkdir(parents=True)
    note = {"id": ["a"], "tokens": 700, "answer_tokens": 500, "heldout_answer_tokens": 0}
    (shard / "shard.json").write_text(json.dumps(note))
    options = page.ask("train_options")
    targets = {one["value"]: one["token_bytes"] for one in options["targets"]}
    assert targets["starter"] > 8 * 576 and "large" not in targets and "broken" in targets
    assert options["free_bytes"] > 0
    (data,) = options["data"]
    assert (data["name"], data["tokens"]) == ("starter-12345678", 700) and data["bytes"] > 0
    assert "no training data" in page.ask("train_delete", name="..")["message"]
    assert page.ask("train_delete", name="starter-12345678")["data"] == []
    assert not shard.exists()
