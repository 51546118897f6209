"""The page's process with a real engine that writes slowly, without a browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.handlers import Handlers
from app.services import Application
from engine.data.folders import DataFolder
from engine.process.client import EngineClient
from tests.engine.runs import write_slow_tiny
from tests.fakes_models import FakeDownloads, FakeModels
from tests.faults.engine_faults import QUICK

WAIT = 60.0


class Page:
    def __init__(self, application: Application) -> None:
        self._handlers = Handlers(application.services)
        self._session: str = self._handlers.hello({})["session"]

    def reload(self, chat: int) -> dict[str, Any]:
        """As the browser's button: a new session, and all that the page draws first."""
        hello = self._handlers.hello({"conversation": chat, "before": self._session})
        self._session = hello["session"]
        return hello

    def wait_for_event(self, kind: str, wanted: Callable[[Any], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            told = self._handlers.resync({"session": self._session, "after": 0})["events"]
            for event in told:
                if event["k"] == kind and wanted(event):
                    found: dict[str, Any] = event
                    return found
            threading.Event().wait(0.02)
        raise AssertionError(f"no {kind} of that kind")

    def ask(self, action: str, **arguments: Any) -> Any:
        answer = self._handlers.call(
            {"session": self._session, "action": action, "arguments": arguments}
        )
        assert "error" not in answer, answer
        return answer["result"]

    def engine_events(self) -> list[dict[str, Any]]:
        told = self._handlers.resync({"session": self._session, "after": 0})["events"]
        return [event for event in told if event["k"] == "engine"]

    def hears(self, is_told: Callable[[dict[str, Any]], bool], after: int = 0) -> int:
        """Waits for an event of the engine behind the first `after`; how many there are then."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            events = self.engine_events()
            if any(is_told(event) for event in events[after:]):
                return len(events)
            threading.Event().wait(0.02)
        raise AssertionError(self.engine_events())

    def last_message(self, chat: int) -> dict[str, Any]:
        message: dict[str, Any] = self.ask("open", conversation=chat)["messages"][-1]
        return message

    def wait(self, chat: int, happened: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            message = self.last_message(chat)
            if happened(message):
                return message
            threading.Event().wait(0.02)
        raise AssertionError(self.last_message(chat))


@contextmanager
def running(tmp_path: Path) -> Iterator[Application]:
    """With a slow tiny model loaded; files that grow are in tmp_path / "data"."""
    folder = DataFolder(tmp_path / "data").ensure()
    built = Application(EngineClient(folder, QUICK), FakeModels(), FakeDownloads(), folder)
    endless = {"context_length": 2048, "max_tokens": 1000, "temperature": 0.0}
    built.services.preferences.set_settings(endless)
    built.services.loading.start(str(write_slow_tiny(tmp_path / "slow.gguf")), ("ngram",))
    built.services.loading.wait(WAIT)
    assert built.services.loading.state()["error"] is None
    yield built
    built.close()


def is_told(message: dict[str, Any]) -> bool:
    return len(message.get("tokens", ())) > 5


def is_over(message: dict[str, Any]) -> bool:
    return not message["streaming"]
