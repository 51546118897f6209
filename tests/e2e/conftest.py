"""Chromium, a running site with the scripted engine, and a watched page on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.chromium import find_chromium
from tests.e2e.sites import Site, fake_site

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PACE = 400
expect.set_options(timeout=60_000)  # a busy machine is not a failure


@dataclass
class Watch:
    """What a page must not do: log errors, ask other hosts."""

    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.fail("needs Chromium or Chrome (FORERUN_TEST_BROWSER names another place)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    running = fake_site(tmp_path_factory.mktemp("site"), PACE)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def slow_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Forty tokens a second: for what happens in mid-reply, and for changed settings."""
    running = fake_site(tmp_path_factory.mktemp("slow-site"), 40)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """A slow one that the test may kill."""
    running = fake_site(tmp_path, 40)
    running.start()
    yield running
    running.stop()


def open_page(
    browser: Browser,
    url: str,
    watch: Watch | None = None,
    load_timeout: float = 60_000,
    **options: object,
) -> Page:
    """A ready page of its own context; a watch collects what must stay empty."""
    context = browser.new_context(**({"viewport": {"width": 1440, "height": 900}} | options))
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    if watch is not None:
        attach(page, watch, url)
    page.goto(url)
    page.wait_for_selector(".forerun[data-ready]")
    expect(page.locator(".engine-status.ready")).to_be_visible(timeout=load_timeout)
    return page


def attach(page: Page, watch: Watch, url: str) -> None:
    own = urlsplit(url).netloc

    def requested(address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("data", "blob") and parts.netloc != own:
            watch.foreign.append(address)

    page.on("console", lambda m: watch.errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: watch.errors.append(str(error)))
    page.on("request", lambda request: requested(request.url))


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A watched page with nothing in it; errors and foreign requests fail the test."""
    watch = Watch()
    opened = open_page(browser, site.url, watch)
    yield opened
    opened.context.close()
    assert watch.errors == []
    assert watch.foreign == []
