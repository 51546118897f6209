"""The page in chromium with the real engine and the starter model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from engine.data.folders import default_data_folder
from engine.models.catalogue import Catalogue
from engine.models.locate import locate
from tests.e2e.shared_page import Watch, attach, load, new_page
from tests.e2e.sites import Site, real_site
from tests.e2e.steps import ask, choose, finished, send, setting, stop_after, text_of, token_count

pytestmark = [pytest.mark.browser, pytest.mark.model]
LOAD_TIMEOUT = 120_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A fresh data folder that has the starter, as after the first set-up."""
    own = default_data_folder()
    starter = locate("starter", Catalogue.load(own), own).path
    folder: Path = tmp_path_factory.mktemp("real-site")
    (folder / "models").mkdir()
    (folder / "models" / "starter.gguf").symlink_to(starter)
    running = real_site(folder)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def one_page(browser: Browser, site: Site, watch: Watch) -> Iterator[Page]:
    opened = new_page(browser)
    attach(opened, watch, site.url)
    yield load(opened, site.url, LOAD_TIMEOUT)
    opened.context.close()


@pytest.fixture
def page(one_page: Page, watch: Watch) -> Iterator[Page]:
    """A new chat. What is loaded and set stays: each test says what it needs of that."""
    one_page.click("#new-chat")
    expect(one_page.locator("#welcome")).to_be_visible()
    yield one_page
    seen = list(watch.errors), list(watch.foreign)
    watch.clear()
    assert seen == ([], [])


def engine_process(site: Site) -> psutil.Process:
    """The largest child: it holds the model."""
    assert site.process is not None
    children = psutil.Process(site.process.pid).children(recursive=True)
    return max(children, key=lambda child: child.memory_info().rss)


def test_two_turns_reuse_the_prompt(page: Page) -> None:
    setting(page, "temperature", "0")
    setting(page, "max_tokens", "40")
    first = ask(page, "Repeat: one two three one two three one two three")
    assert 1 <= token_count(first) <= 40
    assert text_of(first).strip()
    second = ask(page, "Again, please", 2)
    figures = second.locator(".reply-figures").inner_text()
    assert "reused" in figures and "tokens/s" in figures
    panel = page.locator("#figures").inner_text()
    assert "tokens/s" in panel and "target" in panel


def test_a_copied_word_shows_where_it_was_read(page: Page) -> None:
    setting(page, "temperature", "0")
    setting(page, "max_tokens", "40")
    setting(page, "speculate", "always")
    fox = "The quick brown fox jumps over the lazy dog near the river bank"
    part = ask(page, f"Repeat this text word for word: {fox}")
    part.locator(".token.accepted").nth(3).hover()
    expect(page.locator("#tip")).to_contain_text("copied from")
    marked = page.evaluate(
        "() => (CSS.highlights.get('forerun-copied')?.size ?? 0)"
        " + document.querySelectorAll('.copied-from').length"
    )
    assert marked > 0
    page.mouse.move(1, 1)
    expect(page.locator("#tip")).to_be_hidden()
    assert page.evaluate("CSS.highlights.has('forerun-copied')") is False


def test_early_exit_is_made_loaded_and_drafts(page: Page) -> None:
    setting(page, "speculate", "always")
    setting(page, "max_tokens", "40")
    choose(page, "#drafter-box", "early-exit")
    page.keyboard.press("Escape")
    page.click("#load")
    status = page.locator("#engine-status")
    expect(status).to_contain_text("Early exit", timeout=LOAD_TIMEOUT)
    expect(page.locator(".engine-status.ready")).to_be_visible(timeout=LOAD_TIMEOUT)
    part = ask(page, "Tell me about the sea.")
    expect(part.locator(".reply-figures")).to_contain_text("% accepted")
    assert part.locator(".token.accepted, .token.correction, .token.bonus").count() > 3
    part.locator(".token.accepted").first.hover()
    expect(page.locator("#tip")).to_contain_text("draft position")


def test_stop_takes_effect(page: Page) -> None:
    setting(page, "max_tokens", "2000")
    send(page, "Write a very long story about a lighthouse.")
    stop_after(page, 5)
    part = finished(page)
    assert 5 <= token_count(part) < 2000


def test_killed_engine_keeps_the_reply_and_comes_back(page: Page, site: Site) -> None:
    setting(page, "max_tokens", "2000")
    send(page, "Write a very long story about a forest.")
    page.wait_for_function("document.querySelectorAll('.reply-body .token').length > 10")
    engine_process(site).kill()
    part = finished(page)
    expect(part.locator(".note.error")).to_contain_text("The engine stopped unexpectedly")
    assert token_count(part) >= 10
    setting(page, "max_tokens", "10")
    assert 1 <= token_count(ask(page, "Hello", 2)) <= 10


def test_too_long_a_message_is_refused_with_the_numbers(page: Page) -> None:
    setting(page, "context_length", "512")
    page.click("#load")
    expect(page.locator("#engine-status")).to_contain_text("context 512", timeout=LOAD_TIMEOUT)
    part = ask(page, "Hello " * 800)
    expect(part.locator(".note.error")).to_contain_text("512")
    expect(part.get_by_role("button", name="Leave out the oldest messages")).to_be_visible()
