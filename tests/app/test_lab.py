"""The Lab as the page sees them, with the scripted engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.handlers import Handlers
from app.lab_prompts import chosen_prompts, kind_of
from app.services import Application
from engine.data.errors import BadOptionError, MemoryLimitError
from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from engine.data.prompts import BUILT_IN
from engine.data.request import LoadRequest
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels

WAIT = 20.0


class Page:
    """What a page asks and hears."""

    def __init__(self, application: Application) -> None:
        self.handlers = Handlers(application.services)
        self.session = self.handlers.hello()["session"]

    def ask(self, action: str, **arguments: Any) -> dict[str, Any]:
        payload = {"session": self.session, "action": action, "arguments": arguments}
        return self.handlers.call(payload)

    def until(self, kind: str, *states: str) -> dict[str, Any]:
        """The newest event of a kind once it is in one of these states."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            events = self.handlers.resync({"session": self.session, "after": 0})["events"]
            found = [event for event in events if event["k"] == kind]
            if found and found[-1]["state"] in states:
                last: dict[str, Any] = found[-1]
                return last
            threading.Event().wait(0.02)
        raise AssertionError(f"no {kind} in {states}")

    def start_lab(self, *ways: list[str], **changes: Any) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "target": "starter",
            "drafters": list(ways) or [["ngram"], ["model:tiny-draft"]],
            "source": "built-in",
            "pasted": "",
            "count": 3,
            "max_tokens": 64,
        }
        return self.ask("lab_start", **arguments | changes)


def opened(engine: FakeEngine, folder: Path) -> Application:
    application = Application(engine, FakeModels(), FakeDownloads(), DataFolder(folder))
    application.load_last()
    application.services.loading.wait(WAIT)
    return application


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def application(engine: FakeEngine, tmp_path: Path) -> Iterator[Application]:
    built = opened(engine, tmp_path)
    yield built
    built.close()


@pytest.fixture
def page(application: Application) -> Page:
    return Page(application)


def test_it_measures_every_drafter_against_plain_and_recommends_one(
    page: Page, application: Application, engine: FakeEngine
) -> None:
    assert "result" in page.start_lab()
    event = page.until("lab", "done")
    assert (event["done"], event["total"]) == (18, 18), "plain, drafting, plain"
    labels = [one["label"] for one in event["figures"]]
    assert labels == ["Plain decoding", "n-gram lookup", "SmolLM2 Draft 30M"]
    assert event["figures"][1]["speedup"] > 1.0
    assert [one["predicted"] for one in event["figures"]] == [None, 1.5, 1.5]
    assert event["predictions"] == (("n-gram lookup", 1.5), ("SmolLM2 Draft 30M", 1.5))
    assert set(event["figures"][1]["by_category"]) == {"coding", "math", "stem"}
    assert event["recommended"] in (("ngram",), ("model:tiny-draft",))
    assert "auto: " in event["sentence"]
    assert [load.drafter for load in engine.loads[1:3]] == ["ngram", "model:tiny-draft"]
    assert engine.loads[-1].drafter == "ngram", "what was loaded before comes back"
    requests = engine.requests[-4:]
    assert {request.max_tokens for request in requests} == {64}
    assert {request.sampling.temperature for request in requests} == {0.7}


def test_a_way_of_several_drafters_uses_the_chosen_combination(
    page: Page, engine: FakeEngine
) -> None:
    page.start_lab(["ngram", "model:tiny-draft"])
    event = page.until("lab", "done")
    assert event["figures"][1]["label"] == "n-gram lookup + SmolLM2 Draft 30M"
    assert engine.loads[1].drafter == "first(ngram,model:tiny-draft)"


def test_stopping_keeps_complete_prompts(tmp_path: Path) -> None:
    application = opened(FakeEngine(pace=400), tmp_path)
    page = Page(application)
    page.start_lab(count=8)
    while page.until("lab", "running")["done"] < 3:
        threading.Event().wait(0.02)
    page.ask("lab_stop")
    event = page.until("lab", "stopped")
    assert 0 < event["figures"][0]["prompts"] < 8
    assert event["sentence"]
    application.close()


class FullEngine(FakeEngine):
    """No memory for one of the drafters."""

    def load(self, request: LoadRequest, on_progress: Any = None) -> LoadedSummary:
        if request.drafter == "model:tiny-draft":
            raise MemoryLimitError("not loaded: needs 9 GB, 1 GB is free")
        return super().load(request, on_progress)


def test_a_drafter_that_cannot_be_loaded_is_told_and_left_out(tmp_path: Path) -> None:
    application = opened(FullEngine(), tmp_path)
    page = Page(application)
    page.start_lab()
    event = page.until("lab", "done")
    assert event["problems"] == ("SmolLM2 Draft 30M: not loaded: needs 9 GB, 1 GB is free",)
    assert [one["label"] for one in event["figures"]] == ["Plain decoding", "n-gram lookup"]
    page.start_lab(["model:tiny-draft"])
    failed = page.until("lab", "failed")
    assert "needs 9 GB" in failed["error"]
    application.close()


def test_nothing_else_is_measured_or_loaded_meanwhile(tmp_path: Path) -> None:
    application = opened(FakeEngine(pace=100), tmp_path)
    page = Page(application)
    page.start_lab()
    refused = page.ask("load", target="starter", drafters=[])
    assert "the Lab is measuring" in refused["error"]["message"]
    assert "the Lab is measuring" in page.start_lab()["error"]["message"]
    application.close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": None}, "choose a target"),
        ({"drafters": []}, "at least one drafter"),
        ({"source": "pasted", "pasted": " \n "}, "paste at least one"),
        ({"source": "own"}, "write some messages first"),
        ({"source": "elsewhere"}, "unknown prompts"),
        ({"count": 0}, "between 1 and 100"),
        ({"max_tokens": 4}, "between 8 and 1,024"),
    ],
)
def test_what_cannot_be_measured_is_refused(page: Page, changes: dict[str, Any], said: str) -> None:
    assert said in page.start_lab(**changes)["error"]["message"]


def test_own_prompts_are_the_newest_once_each(page: Page, application: Application) -> None:
    for text in ("hello one", "hello two", "hello one"):
        sent = page.ask("send", conversation=None, text=text)["result"]
        assert sent["conversation"]
    page.start_lab(["ngram"], source="own", count=5)
    event = page.until("lab", "done")
    assert event["prompts"] == 2
    assert list(event["figures"][0]["by_category"]) == ["prose"]


def test_prompts_are_split_cut_and_named() -> None:
    pasted = "first\nline\n\n  \nsecond\n\nfirst\nline"
    prompts = chosen_prompts("pasted", 9, pasted, ())
    assert [prompt.text for prompt in prompts] == ["first\nline", "second"]
    assert chosen_prompts("built-in", 2, "", ()) == BUILT_IN[:2]
    assert len(chosen_prompts("own", 1, "", ["x" * 20_000])[0].text) == 8_000
    with pytest.raises(BadOptionError):
        chosen_prompts("own", 1, "", [" "])
    assert kind_of("Write a Python function that sorts") == "code"
    assert kind_of("foo(); bar();") == "code"
    assert kind_of("Tell me about the sea.") == "prose"
