"""axe-core in every state of the page, light and dark, wide and narrow: nothing is found.

There are no exceptions. A part with a state of its own adds a step to one of the walks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.e2e.accessibility import ALL, COLOURS, findings
from tests.e2e.steps import answered, ask, choose, finished, send, setting

pytestmark = pytest.mark.browser

Look = Callable[..., None]
NARROW: ViewportSize = {"width": 380, "height": 800}
DIALOGS = ("chat-settings", "models", "train", "lab", "exchange", "log", "shortcuts")


@contextmanager
def looking(page: Page) -> Iterator[Look]:
    """What is found in any state, told together at the end."""
    found: dict[str, str] = {}

    def look(state: str, rules: list[str] = ALL) -> None:
        for line in findings(page, rules):
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
        look(f"{state}, dark", COLOURS)


def rich_replies(page: Page) -> None:
    """Formulas, tables, code, lists of tasks, and a thought that is open."""
    ask(page, "rendering")
    ask(page, "ponder hello", 2)
    page.locator(".thought summary").click()
    page.locator(".formula").first.press("Enter")


def test_rich_replies(page: Page) -> None:
    with looking(page) as look:
        in_both_themes(page, look, "empty")
        rich_replies(page)
        in_both_themes(page, look, "replies")
        page.get_by_role("radio", name="Tokens").click()
        look("tokens")


def test_states_of_a_reply(page: Page) -> None:
    """Of short ones: each token takes its time to look at."""
    with looking(page) as look:
        ask(page, "markdown please")
        for mode in ("Drafter", "Predictability", "Off", "Outcome"):
            page.get_by_role("radio", name=mode).click()
            look(mode, COLOURS)
        page.click("#new-chat")
        ask(page, "hello")
        page.locator(".reply-body .token").last.hover()
        in_both_themes(page, look, "tooltip")
        page.locator(".reply-body .token.correction").last.click()
        expect(page.locator("#almost-dialog")).to_be_visible()
        in_both_themes(page, look, "what it almost said")
        page.keyboard.press("Escape")
        page.locator(".message.user").hover()
        page.get_by_role("button", name="Edit and send again").click()
        in_both_themes(page, look, "edit")
        page.keyboard.press("Escape")
        setting(page, "speculate", "off")
        ask(page, "hello without drafts", 2)
        look("no drafts")
        ask(page, "too long", 3)
        ask(page, "please die", 4)
        send(page, "tell me slowly, 900 tokens of it")
        page.wait_for_selector(".message.streaming .token")
        in_both_themes(page, look, "errors, and one that is being written")
        page.keyboard.press("Control+.")
        finished(page, 5)
        look("stopped")
        page.click("#new-chat")
        send(page, "ponder slowly, 900 tokens of it")
        answer_now = page.get_by_role("button", name="Answer now")
        expect(answer_now).to_be_visible()
        in_both_themes(page, look, "thinking")
        answer_now.click()
        finished(page, 1)
        look("ended by the user")


def test_versions(page: Page) -> None:
    with looking(page) as look:
        part = ask(page, "hello")
        part.locator("[data-does=regenerate]").click()
        expect(part.locator(".version-place")).to_have_text("2/2")
        finished(page)
        part.get_by_role("button", name="More").click()
        in_both_themes(page, look, "menu")
        page.get_by_role("menuitem", name="Compare the versions").click()
        in_both_themes(page, look, "compare")
        page.keyboard.press("Escape")
        part.get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Edit this reply").click()
        look("edit a reply")
        page.keyboard.press("Escape")
        page.locator(".message.user").hover()
        page.locator(".message.user").get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Delete").click()
        expect(page.locator("#ask-dialog")).to_be_visible()
        in_both_themes(page, look, "ask")
        page.keyboard.press("Escape")


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
        page.fill("#lab-count", "1")
        page.fill("#lab-length", "8")
        with answered(page, "lab_start"):
            page.get_by_role("button", name="Measure").click()
        expect(page.locator(".lab-table")).to_be_visible()
        in_both_themes(page, look, "measured")


def test_narrow(page: Page) -> None:
    page.set_viewport_size(NARROW)
    with looking(page) as look:
        in_both_themes(page, look, "empty")
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
        for name in DIALOGS[1:]:
            page.click("#open-sidebar")
            page.click(f"#open-{name}")
            look(name)
            page.keyboard.press("Escape")
            page.keyboard.press("Escape")
        rich_replies(page)
        look("replies")
