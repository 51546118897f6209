"""Chromium, a running site with the scripted engine, and a watched page on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.chromium import find_chromium
from tests.e2e.shared_page import PATIENCE_MS, SharedPage, Watch
from tests.e2e.sites import FakeSite, fake_site

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PACE = 400
expect.set_options(timeout=PATIENCE_MS)  # a busy machine is not a failure


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
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeSite]:
    """A test may kill it and has to start it again."""
    running = fake_site(tmp_path_factory.mktemp("site"), PACE)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def shared_page(browser: Browser, site: FakeSite) -> Iterator[SharedPage]:
    shared = SharedPage(browser, site)
    yield shared
    shared.close()


@pytest.fixture
def watch(shared_page: SharedPage) -> Watch:
    """What the page did; a test that cuts it off has to clear the errors it caused."""
    return shared_page.watch


@pytest.fixture
def page(shared_page: SharedPage) -> Iterator[Page]:
    """A watched page as it was first opened; errors and foreign requests fail the test."""
    yield shared_page.start_over()
    assert shared_page.watch.errors == []
    assert shared_page.watch.foreign == []
