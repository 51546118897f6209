"""What changes in the engine without a load of the page: every page hears of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.handlers import Handlers
from app.loading import Loading
from app.names import Names
from app.preferences import PreferencesFile
from app.services import Application
from app.session import Event, Session, Sessions
from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from tests.app.page_side import WAIT
from tests.fakes_engine import FakeEngine


@pytest.fixture
def page(application: Application) -> Session:
    hello = Handlers(application.services).hello()
    session = application.services.sessions.get(hello["session"])
    assert session is not None
    return session


def engine_events(page: Session) -> list[dict[str, Any]]:
    events = page.since(0)["events"]
    return [event for event in events if event["k"] == "engine"]


def predicting(loaded: LoadedSummary, greedy: float) -> LoadedSummary:
    assert loaded.speed is not None
    return replace(loaded, speed=replace(loaded.speed, predicted={"greedy": greedy}))


def test_a_page_hears_of_a_death_a_return_and_a_new_prediction(
    page: Session, engine: FakeEngine
) -> None:
    loaded = engine.loaded
    assert loaded is not None
    engine.now_has(None)
    engine.now_has(loaded)
    engine.now_has(predicting(loaded, 1.75))
    died, back, learned = engine_events(page)
    assert died["loaded"] is None
    assert back["loaded"]["predicted"] == {"greedy": 1.25, "sampled": 1.5}
    assert learned["loaded"]["predicted"] == {"greedy": 1.75}
    assert all(event["progress"] is event["error"] is None for event in (died, back, learned))


def test_a_load_never_shows_the_new_model_with_the_pair_before(
    page: Session, application: Application
) -> None:
    application.services.loading.start("coder", ("model:coder-small",))
    application.services.loading.wait(WAIT)
    events = engine_events(page)
    assert events[-1]["loaded"]["target"]["id"] == "coder"
    for event in events:
        assert event["loaded"]["target"]["id"] == event["loaded_pair"]["target"]


class HeldSessions(Sessions):
    """The first broadcast waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.let_go = threading.Event(), threading.Event()

    def broadcast(self, event: Event) -> None:
        if not self.reached.is_set():
            self.reached.set()
            self.let_go.wait(WAIT)
        super().broadcast(event)


def test_the_last_state_that_a_page_hears_of_is_the_latest(
    engine: FakeEngine, tmp_path: Path
) -> None:
    sessions = HeldSessions()
    page = sessions.create()
    preferences = PreferencesFile(DataFolder(tmp_path).preferences_file)
    Loading(engine, preferences, sessions, Names(lambda _news: None))
    request = preferences.current.settings.load_request("starter", ("ngram",))
    first = threading.Thread(target=lambda: engine.load(request))
    first.start()
    assert sessions.reached.wait(WAIT)
    second = threading.Thread(target=lambda: engine.now_has(None))
    second.start()
    second.join(0.2)  # where nothing orders the two, it is through by then
    sessions.let_go.set()
    first.join(WAIT)
    second.join(WAIT)
    told = [event["loaded"] is not None for event in engine_events(page)]
    assert told in ([True, False], [False, False])
