"""The focus is always somewhere, and where one expects it; keys do what their sheet says."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.steps import answered, ask, finished, reply, send

pytestmark = pytest.mark.browser

ForcedColors = Literal["none", "active"]

# Longer than anything that could still move the focus: two frames and what they put off.
SETTLED = """() => new Promise((resolve) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))))"""


def focused(page: Page) -> str:
    """Name of what has the focus."""
    page.evaluate(SETTLED)
    name: str = page.evaluate(
        "(({ id, title, textContent, tagName }) =>"
        " tagName === 'BODY' ? 'nothing' : id || title || textContent.trim())"
        "(document.activeElement)"
    )
    return name


def press(page: Page, selector: str) -> None:
    """As by keyboard."""
    page.locator(selector).last.focus()
    page.keyboard.press("Enter")


def test_dialogs_give_it_back(page: Page) -> None:
    names = ("settings", "models", "train", "lab", "exchange", "log", "legend", "shortcuts")
    for name in names:
        press(page, f"#open-{name}")
        expect(page.locator(f"#{name}-dialog")).to_be_visible()
        page.keyboard.press("Escape")
        assert focused(page) == f"open-{name}"
    for box in ("target", "drafter"):
        press(page, f"#{box}-box .box-button")
        page.keyboard.press("Escape")
        assert page.locator(f"#{box}-box .box-button").evaluate("one => one.matches(':focus')")
    page.locator("#target-box .box-button").click()
    page.keyboard.type("Qwen3 8B")
    page.keyboard.press("Enter")
    expect(page.locator("#models-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    focused(page)
    expect(page.locator("#target-box .box-button")).to_be_focused()


def test_sending_stopping_and_writing_again(page: Page) -> None:
    send(page, "tell me slowly, 300 tokens of it")
    page.wait_for_selector(".message.streaming .token")
    assert focused(page) == "message-box"
    press(page, "#stop")
    finished(page)
    assert focused(page) == "message-box"
    page.locator("#message-box").fill("hello")
    press(page, "#send")
    finished(page, 2)
    assert focused(page) == "message-box"
    press(page, ".message.reply [data-does=regenerate]")
    page.wait_for_function("document.querySelectorAll('.message.reply').length === 2")
    finished(page, 2)
    assert focused(page) != "nothing"
    press(page, ".message.user button:has-text('Edit and send again')")
    expect(page.locator(".edit-box")).to_be_focused()
    page.keyboard.press("Escape")
    assert "Edit and send again" in focused(page)
    page.keyboard.press("Enter")
    page.locator(".edit-box").fill("hello again")
    page.keyboard.press("Enter")
    expect(page.locator(".user-text").last).to_have_text("hello again")
    finished(page, 2)
    assert focused(page) != "nothing"


def test_rows_that_go_and_rows_that_are_drawn_anew(page: Page) -> None:
    for text in ("one", "two", "three"):
        page.click("#new-chat")
        ask(page, f"hello {text}")
    rows = page.locator(".conversation")
    expect(rows).to_have_text(["hello three", "hello two", "hello one"])
    press(page, "#conversation-list li:first-child button:has-text('Rename')")
    page.keyboard.type("renamed")
    with answered(page, "rename"):
        page.keyboard.press("Enter")
    expect(rows.first).to_have_text("renamed")
    assert focused(page).startswith("renamed")
    press(page, "#conversation-list li:first-child button:has-text('Delete')")
    expect(rows).to_have_text(["hello two", "hello one"])
    assert focused(page) == "message-box"
    with answered(page, "restore"):
        press(page, ".toast button")
    expect(rows).to_have_count(3)
    assert focused(page) != "nothing"
    press(page, "#conversation-list li:nth-child(2) .conversation")
    expect(page.locator(".user-text")).to_have_text("hello two")
    assert "hello two" in focused(page)
    press(page, "#conversation-list li:first-child button:has-text('Delete')")
    expect(rows).to_have_text(["hello two", "hello one"])
    assert "Delete hello two" in focused(page)
    press(page, "#new-chat")
    assert focused(page) == "message-box"


def test_load_and_downloads(page: Page) -> None:
    press(page, "#load")
    assert focused(page) != "nothing"
    expect(page.locator(".engine-status.ready")).to_be_visible()
    assert focused(page) != "nothing"
    page.click("#open-models")
    press(page, "[data-model=large] button:has-text('Download')")
    expect(page.locator("[data-model=large] button")).to_have_count(0)
    assert focused(page) != "nothing"
    assert page.evaluate("document.activeElement.closest('dialog')?.id") == "models-dialog"
    press(page, ".downloads button:has-text('Cancel')")
    expect(page.locator(".downloads button:has-text('Retry')")).to_be_visible()
    assert page.evaluate("document.activeElement.closest('dialog')?.id") == "models-dialog"
    press(page, ".downloads button:has-text('Dismiss')")
    expect(page.locator(".downloads li")).to_have_count(0)
    assert page.evaluate("document.activeElement.closest('dialog')?.id") == "models-dialog"


def test_drawers_keep_it_and_give_it_back(page: Page) -> None:
    page.set_viewport_size({"width": 380, "height": 800})
    for name in ("sidebar", "panel", "pair", "views"):
        press(page, f"#open-{name}")
        expect(page.locator(f"#{name} .drawer-close")).to_be_focused()
        for _ in range(12):
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.closest('.transcript, .composer')") is None
        page.keyboard.press("Escape")
        assert focused(page) == f"open-{name}"
    page.click("#open-pair")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator(".forerun")).not_to_have_attribute("data-drawer", "pair")
    page.click("#message-box")


@pytest.mark.parametrize("colours", ["none", "active"])
def test_every_stop_of_the_tab_key_can_be_seen(page: Page, colours: ForcedColors) -> None:
    """A ring or an edge shows where one is, in the system's few colours too."""
    ask(page, "markdown please")
    page.emulate_media(forced_colors=colours)
    page.locator(".skip-link").focus()
    seen = set()
    for _ in range(150):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => {
              const one = document.activeElement;
              if (one === document.body) return null;
              const style = getComputedStyle(one);
              const box = one.getBoundingClientRect();
              const ring = style.outlineStyle !== 'none' || one.id === 'message-box';
              const shown = box.width > 4 && box.height > 4 && box.right > 0 && box.bottom > 0;
              return [one.id || one.title || one.textContent.trim().slice(0, 40), ring && shown];
            }"""
        )
        if at is None:
            break
        seen.add(at[0])
        assert at[1], at
    page.emulate_media(forced_colors="none")
    assert {"new-chat", "load", "message-box", "open-shortcuts"} <= seen


def test_what_is_chosen_can_be_seen_in_the_colours_of_the_system(page: Page) -> None:
    """Backgrounds are all the same there; the frame of what is chosen is not."""
    page.emulate_media(forced_colors="active")
    frames = page.locator("[data-switch=view] [role=radio]").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).outlineStyle)"
    )
    page.emulate_media(forced_colors="none")
    assert frames == ["solid", "none"]


def test_keys(page: Page) -> None:
    ask(page, "hello")
    page.keyboard.press("Escape")
    expect(page.locator("#transcript")).to_be_focused()
    app = page.locator(".forerun")
    page.keyboard.press("v")
    expect(app).to_have_attribute("data-view", "tokens")
    page.keyboard.press("o")
    expect(app).to_have_attribute("data-colour", "drafter")
    with answered(page, "view"):
        page.keyboard.press("d")
    expect(app).to_have_attribute("data-ghosts", "false")
    page.keyboard.press("c")
    assert "Hello!" in page.evaluate("navigator.clipboard.readText()")
    with answered(page, "regenerate"):
        page.keyboard.press("r")
    finished(page)
    page.locator("#transcript").focus()
    page.keyboard.press("s")
    expect(page.locator("#conversation-search")).to_be_focused()
    page.keyboard.type("nvr?")
    expect(page.locator("#conversation-search")).to_have_value("nvr?")
    page.locator("#conversation-search").fill("")
    page.locator("#transcript").focus()
    page.keyboard.press("m")
    expect(page.locator("#message-box")).to_be_focused()
    page.keyboard.type("n? really")
    expect(page.locator("#message-box")).to_have_value("n? really")
    send(page, "tell me slowly, 900 tokens of it")
    page.wait_for_selector(".message.streaming .token")
    page.keyboard.press("Control+.")
    finished(page, 2)
    expect(reply(page).locator(".reply-figures")).to_contain_text("stopped")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator("#message-box")).to_be_focused()


def test_the_sheet_of_keys(page: Page) -> None:
    page.locator("#transcript").focus()
    page.keyboard.press("?")
    sheet = page.locator("#shortcuts-dialog")
    expect(sheet).to_contain_text("Write the last reply again")
    expect(page.locator("#new-chat")).to_have_attribute("title", "New chat (N)")
    page.keyboard.press("n")
    expect(sheet).to_be_visible()
    sheet.get_by_role("checkbox").uncheck()
    page.keyboard.press("Escape")
    page.locator("#transcript").focus()
    page.keyboard.press("?")
    page.keyboard.press("v")
    expect(sheet).to_be_hidden()
    expect(page.locator(".forerun")).to_have_attribute("data-view", "rendered")
    expect(page.locator("#new-chat")).not_to_have_attribute("title", "New chat (N)")
    page.click("#open-shortcuts")
    sheet.get_by_role("checkbox").check()
    page.keyboard.press("Escape")
