"""Drafters as a page chooses and names them, without a page."""

from __future__ import annotations

from pathlib import Path

from app.names import drafters_in
from app.services import Application
from app.session import Session
from engine.data.folders import DataFolder
from tests.app.page_side import WAIT, Page
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels


def test_drafters_are_chosen_by_rows_and_settings_and_come_back_as_such(
    page: Page, engine: FakeEngine, application: Application
) -> None:
    chosen = [
        {"value": "recycle", "tree": 24, "layers": "", "siblings": False},
        {"value": "early-exit", "tree": 0, "layers": "first=8", "siblings": True},
    ]
    page.ask("load", target="starter", drafters=chosen)
    application.services.loading.wait(WAIT)
    assert engine.loads[-1].drafter == "first(recycle:tree=24,tree(early-exit:first=8))"
    state = application.services.loading.state()
    assert state["chosen"] == state["loaded_chosen"] == chosen
    assert state["loaded_pair"]["drafters"] == ["recycle:tree=24", "tree(early-exit:first=8)"]
    assert state["loaded"]["kind"] == "first"
    assert Page(application).hello["preferences"]["chosen"] == chosen
    answer = page.ask("load", target="starter", drafters=[{"value": "ngram", "tree": 4}])
    assert answer["error"]["kind"] == "BadOptionError"


def test_what_names_drafters_says_what_they_are_called(
    page: Page, application: Application
) -> None:
    conversation = page.send("hello")
    page.wait_for("end")
    told: dict[str, str] = {}
    for event in page.events():
        told |= event.get("names", {})
        assert set(drafters_in(event.get("details", event))) <= set(told)
    assert told["ngram"] == "n-gram lookup"
    assert page.ask("open", conversation=conversation)["result"]["names"] == told
    assert page.hello["engine"]["names"]["starter"] != "starter"
    assert "names" not in application.services.chat.open(Session(), conversation)["messages"][1]


def test_pages_hear_of_a_name_that_comes_late(engine: FakeEngine, tmp_path: Path) -> None:
    application = Application(engine, FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    application.services.loading.start("starter", ("model:tiny-draft",))
    application.services.loading.wait(WAIT)
    page = Page(application)
    assert page.hello["engine"]["names"]["model:tiny-draft"] == "tiny-draft"
    page.ask("options", target="starter")
    (news,) = [event["names"] for event in page.events() if event["k"] == "names"]
    assert news["model:tiny-draft"] == "SmolLM2 Draft 30M"
    application.close()
