"""A page's side of the interface, without a page."""

from __future__ import annotations

import threading
import time
from typing import Any

from app.handlers import Handlers
from app.services import Application

WAIT = 20.0


class Page:
    """A page's side of the interface."""

    def __init__(self, application: Application) -> None:
        self.handlers = Handlers(application.services)
        self.services = application.services
        hello = self.handlers.hello({"conversation": None})
        self.session = hello["session"]
        self.hello = hello

    def ask(self, action: str, **arguments: Any) -> dict[str, Any]:
        return self.handlers.call(
            {"session": self.session, "action": action, "arguments": arguments}
        )

    def events(self) -> list[dict[str, Any]]:
        answer = self.handlers.resync({"session": self.session, "after": 0})
        events: list[dict[str, Any]] = answer["events"]
        return events

    def wait_for(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            found = [event for event in self.events() if event["k"] == kind]
            if len(found) >= count:
                return found
            threading.Event().wait(0.01)
        raise AssertionError(f"no {kind} in {self.events()}")

    def send(self, text: str, conversation: int | None = None) -> int:
        answer = self.ask("send", conversation=conversation, text=text)
        return int(answer["result"]["conversation"])
