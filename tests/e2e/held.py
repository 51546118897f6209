"""Answers of the server that come when the test says so, in any order."""

from __future__ import annotations

import re
import time
from types import TracebackType

from playwright.sync_api import APIResponse, Page, Route

REQUESTS = re.compile("/component_server/?$")
PATIENCE_SECONDS = 30.0


class Held:
    """Requests of these actions of the page are held back until `release`.

    on_the_way: the request itself is late, and reaches the server with its release; otherwise the
    server has it at once and its answer is late.
    """

    def __init__(self, page: Page, *actions: str, on_the_way: bool = False) -> None:
        self._page = page
        self._actions = actions
        self._on_the_way = on_the_way
        self._waiting: list[tuple[str, Route, APIResponse | None]] = []

    def __enter__(self) -> Held:
        self._page.route(REQUESTS, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._actions = ()
        while self._waiting:
            self._let_go(0)
        self._page.unroute(REQUESTS, self._take)

    def wait(self, count: int) -> None:
        """Until so many are held."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self._waiting) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(self._waiting)} of {count} requests came")
            self._page.wait_for_timeout(10)

    def release(self, number: int = 0) -> None:
        """The one that came as number `number` of those that are held."""
        self.wait(number + 1)
        self._let_go(number)

    def count(self) -> int:
        return len(self._waiting)

    def _take(self, route: Route) -> None:
        found = re.search(r'"action":"(\w+)"', route.request.post_data or "")
        action = found[1] if found else ""
        if action not in self._actions:
            route.continue_()
            return
        answer = None if self._on_the_way else route.fetch()
        self._waiting.append((action, route, answer))

    def _let_go(self, number: int) -> None:
        _, route, answer = self._waiting.pop(number)
        if answer is None:
            route.continue_()
        else:
            route.fulfill(response=answer)
