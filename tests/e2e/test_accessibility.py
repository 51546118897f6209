"""axe-core in every state of the page, light and dark, wide and narrow: nothing is found.

There are no exceptions. A part with a state of its own adds a step to one of the walks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.e2e.accessibility import findings
from tests.e2e.steps import answered, ask, choose, finished, send, setting

pytestmark = pytest.mark.browser

Look = Callable[[str], None]
NARROW: ViewportSize = {"width": 380, "height": 800}
DIALOGS = ("models", "train", "lab", "exchange", "log", "shortcuts")


@contextmanager
def looking(page: Page) -> Iterator[Look]:
    """What is found in any state, told together at the end."""
    found: dict[str, str] = {}

    def look(state: str) -> None:
        for line in findings(page):
            found.setdefault(line, state)

    yield look
    assert [f"{state}: {line}" for line, state in found.items()] == []


@contextmanager
def dark(page: Page) -> Iterator[None]:
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    yield
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def in_both_themes(page: Page, look: Look, state: str) -> None:
    look(state)
    with dark(page):
        look(f"{state}, dark")


def replies(page: Page) -> None:
    """One of each kind: rich text, formulas and lists of tasks, thoughts, no drafts, an error."""
    for number, text in enumerate(("markdown please", "rendering", "ponder hello"), 1):
        ask(page, text, number)
    page.locator(".thought summary").click()
    page.locator(".formula").first.press("Enter")


def test_replies(page: Page) -> None:
    with looking(page) as look:
        in_both_themes(page, look, "empty")
        replies(page)
        in_both_themes(page, look, "replies")
        for mode in ("Drafter", "Off", "Tokens"):
            page.get_by_role("radio", name=mode).click()
            look(mode)
        page.get_by_role("radio", name="Outcome").click()
        page.get_by_role("radio", name="Rendered").click()
        page.locator(".reply-body .token").last.hover()
        look("tooltip")
        page.locator(".message.user").last.hover()
        page.get_by_role("button", name="Edit and send again").last.click()
        look("edit")
        page.keyboard.press("Escape")
        setting(page, "speculate", "off")
        ask(page, "hello without drafts", 4)
        look("no drafts")
        ask(page, "please die", 5)
        look("error")
        ask(page, "too long", 6)
        send(page, "tell me slowly, 900 tokens of it")
        page.wait_for_selector(".message.streaming .token")
        look("streaming")
        page.keyboard.press("Control+.")
        finished(page, 7)
        look("stopped")


def test_dialogs_and_lists(page: Page) -> None:
    with looking(page) as look:
        ask(page, "hello")
        for box in ("#target-box", "#drafter-box"):
            page.click(f"{box} .box-button")
            in_both_themes(page, look, box)
            page.keyboard.press("Escape")
        choose(page, "#drafter-box", "recycle")
        look("settings of a drafter")
        page.keyboard.press("Escape")
        page.click("#open-settings")
        page.fill("#setting-temperature", "99")
        page.locator("#setting-temperature").blur()
        expect(page.locator("#setting-temperature-error")).not_to_be_empty()
        in_both_themes(page, look, "settings")
        page.locator(".help").first.hover()
        look("help")
        page.fill("#setting-temperature", "1")
        page.keyboard.press("Escape")
        page.click("#open-legend")
        in_both_themes(page, look, "legend")
        page.keyboard.press("Escape")
        for name in DIALOGS:
            page.click(f"#open-{name}")
            in_both_themes(page, look, name)
            page.keyboard.press("Escape")
        page.locator("#conversation-list li").first.hover()
        page.get_by_role("button", name="Rename").first.click()
        look("rename")
        page.keyboard.press("Escape")
        page.locator("#conversation-list li").first.hover()
        page.get_by_role("button", name="Delete").first.click()
        expect(page.locator(".toast")).to_be_visible()
        in_both_themes(page, look, "toast")
        page.get_by_role("button", name="Undo").click()


def test_results_of_the_lab(page: Page) -> None:
    ask(page, "hello")
    with looking(page) as look:
        page.click("#open-lab")
        with answered(page, "lab_start"):
            page.get_by_role("button", name="Measure").click()
        expect(page.locator(".lab-table")).to_be_visible()
        in_both_themes(page, look, "measured")
        page.get_by_role("tab").nth(1).click()
        look("race")


def test_narrow(page: Page) -> None:
    page.set_viewport_size(NARROW)
    with looking(page) as look:
        in_both_themes(page, look, "empty")
        replies(page)
        in_both_themes(page, look, "replies")
        for opener in ("pair", "views", "sidebar", "panel"):
            page.click(f"#open-{opener}")
            in_both_themes(page, look, opener)
            page.keyboard.press("Escape")
        page.click("#open-pair")
        page.click("#drafter-box .box-button")
        look("drafters")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.click("#open-settings")
        look("settings")
        page.keyboard.press("Escape")
        for name in DIALOGS:
            page.click("#open-sidebar")
            page.click(f"#open-{name}")
            look(name)
            page.keyboard.press("Escape")
            page.keyboard.press("Escape")
