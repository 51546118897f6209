"""Pages that go away, and what becomes of the replies they asked for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.departures import Departures
from app.handlers import Handlers
from app.services import Application
from app.session import Session
from engine.data.folders import DataFolder
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels

WAIT = 20.0
SHORT = 0.05


@pytest.fixture
def gone() -> queue.Queue[Session]:
    return queue.Queue()


@pytest.fixture
def departures(gone: queue.Queue[Session]) -> Iterator[Departures]:
    running = Departures(gone.put, SHORT)
    yield running
    running.close()


def test_a_page_that_stays_away_is_gone(departures: Departures, gone: queue.Queue[Session]) -> None:
    session = Session()
    departures.leaves(session)
    departures.leaves(session)
    assert gone.get(timeout=WAIT) is session
    with pytest.raises(queue.Empty):
        gone.get(timeout=3 * SHORT)


def test_a_page_that_asks_again_is_not_gone_until_it_is_silent(
    departures: Departures, gone: queue.Queue[Session]
) -> None:
    session = Session()
    departures.leaves(session)
    silent = threading.Event()

    def ask() -> None:
        while not silent.wait(SHORT / 10):
            session.touch()

    page = threading.Thread(target=ask)
    page.start()
    with pytest.raises(queue.Empty):
        gone.get(timeout=6 * SHORT)
    silent.set()
    page.join()
    assert gone.get(timeout=WAIT) is session


def test_nothing_is_told_after_the_end(gone: queue.Queue[Session]) -> None:
    departures = Departures(gone.put, SHORT)
    departures.leaves(Session())
    departures.close()
    with pytest.raises(queue.Empty):
        gone.get(timeout=3 * SHORT)


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    built = Application(FakeEngine(pace=50), FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    built.load_last()
    built.services.loading.wait(WAIT)
    yield built
    built.close()


def ask(handlers: Handlers, session: str, action: str, **arguments: object) -> dict[str, object]:
    answer = handlers.call({"session": session, "action": action, "arguments": arguments})
    assert "error" not in answer, answer
    result: dict[str, object] = answer["result"]
    return result


def leave(application: Application, session_id: str) -> None:
    session = application.services.sessions.get(session_id)
    assert session is not None
    application.services.chat.leave(session)


def test_a_reply_goes_on_for_the_page_after_a_reload(application: Application) -> None:
    handlers = Handlers(application.services)
    first = handlers.hello({"conversation": None})["session"]
    conversation = ask(handlers, first, "send", conversation=None, text="3000 tokens")[
        "conversation"
    ]
    second = handlers.hello({"conversation": None, "before": first})["session"]
    leave(application, first)
    third = handlers.hello({"conversation": conversation})["session"]  # it only shows the chat
    leave(application, second)
    assert application.services.chat.is_writing
    stopped = ask(handlers, third, "open", conversation=conversation)["messages"]
    assert isinstance(stopped, list) and stopped[-1]["streaming"]
    leave(application, third)
    application.services.chat.close()
    message = application.services.chat.open(Session(), int(str(conversation)))["messages"][-1]
    assert message["details"]["finish"] == "cancelled"


def test_requests_that_come_late_do_not_change_what_a_page_shows() -> None:
    session = Session()
    session.show(7, 2)
    session.show(3, 1)
    assert session.conversation == 7
    session.show(None, 3)
    assert session.conversation is None
    session.show(5, None)
    assert session.conversation == 5
