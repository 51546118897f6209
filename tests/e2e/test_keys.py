"""The page in chromium: input methods, copying without a clipboard, and the scrolling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from app.conversations import Conversations
from tests.e2e.shared_page import load, new_page
from tests.e2e.sites import FakeSite, fake_site
from tests.e2e.steps import ask, finished, send
from tests.fakes_engine import MARKDOWN

pytestmark = pytest.mark.browser

COMPOSING = ({"isComposing": True, "keyCode": 229}, {"isComposing": False, "keyCode": 229})
PRESS = """([selector, key, more]) => {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
  document.querySelector(selector).dispatchEvent(event);
}"""


def press_composing(page: Page, selector: str) -> None:
    """Enter and Escape as they come from input methods."""
    for more in COMPOSING:
        for key in ("Enter", "Escape"):
            page.evaluate(PRESS, [selector, key, more])


def compose(page: Page, text: str) -> None:
    """Chromium's own composition in the field that has the focus, still open."""
    devtools = page.context.new_cdp_session(page)
    devtools.send(
        "Input.imeSetComposition",
        {"text": text, "selectionStart": len(text), "selectionEnd": len(text)},
    )
    for kind in ("rawKeyDown", "keyUp"):
        key = {"key": "Process", "code": "Enter", "windowsVirtualKeyCode": 229}
        devtools.send("Input.dispatchKeyEvent", {"type": kind, **key})
    devtools.detach()


def test_keys_of_an_input_method_neither_send_nor_stop(page: Page) -> None:
    send(page, "tell me slowly, 60 tokens of it")
    page.wait_for_selector(".message.reply.streaming .token")
    page.focus("#message-box")
    compose(page, "にほん")
    press_composing(page, "#message-box")
    expect(page.locator("#message-box")).to_have_value("にほん")
    part = finished(page)
    expect(part.locator(".reply-figures")).not_to_contain_text("stopped")
    press_composing(page, "#message-box")
    expect(page.locator(".message")).to_have_count(2)
    expect(page.locator("#message-box")).to_have_value("にほん")


def test_keys_of_an_input_method_neither_rename_nor_edit(page: Page) -> None:
    ask(page, "zebras, 20 tokens")
    page.locator("#conversation-list li").first.hover()
    page.get_by_role("button", name="Rename").click()
    page.fill(".rename", "しまうま")
    press_composing(page, ".rename")
    expect(page.locator(".rename")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator(".message.user").hover()
    page.get_by_role("button", name="Edit and send again").click()
    page.fill(".edit-box", "other")
    press_composing(page, ".edit-box")
    expect(page.locator(".edit-box")).to_be_focused()
    expect(page.locator(".conversation")).to_have_text(["zebras, 20 tokens"])


def test_keys_of_an_input_method_neither_choose_nor_close(page: Page) -> None:
    page.click("#target-box .box-button")
    page.fill("#target-box .box-filter", "coder")
    press_composing(page, "#target-box .box-filter")
    expect(page.locator("#target-box .box-popup")).to_be_visible()
    expect(page.locator("#target-box .box-value")).to_have_text("SmolLM2 135M Instruct")
    page.keyboard.press("Escape")
    page.click("#open-models")
    page.fill("#repository", "no/such")
    press_composing(page, "#repository")
    expect(page.locator("#models-dialog")).to_have_attribute("open", "")
    expect(page.locator("#models-body .field-error").last).to_be_empty()


def test_copying_without_a_clipboard(browser: Browser, site: FakeSite) -> None:
    """As over plain http from another machine, where browsers offer none."""
    page = new_page(browser)
    page.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'clipboard', { get: () => undefined })"
    )
    load(page, site.url)
    part = ask(page, "markdown please")
    part.get_by_role("button", name="Copy", exact=True).last.click()
    expect(part.locator(".message-buttons .copied")).to_be_visible()
    page.focus("#message-box")
    page.keyboard.press("Control+V")
    expect(page.locator("#message-box")).to_have_value(MARKDOWN)
    page.context.close()


def test_a_slow_scroll_upwards_lets_go_of_the_end(page: Page) -> None:
    send(page, "tell me slowly, 400 tokens of it, in markdown")
    page.wait_for_function("document.querySelector('#transcript').scrollTop > 100")
    page.mouse.move(500, 400)
    for _ in range(8):
        page.mouse.wheel(0, -4)
        page.wait_for_timeout(20)
    expect(page.locator("#to-end")).to_be_visible()
    top = page.evaluate("document.querySelector('#transcript').scrollTop")
    before = page.locator(".reply-body .token").count()
    page.wait_for_function(
        "before => document.querySelectorAll('.reply-body .token').length > before + 30",
        arg=before,
    )
    assert page.evaluate("document.querySelector('#transcript').scrollTop") <= top
    page.mouse.wheel(0, 10_000)
    expect(page.locator("#to-end")).to_be_hidden()
    page.keyboard.press("Escape")
    finished(page)


@pytest.fixture(scope="module")
def long_list(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeSite]:
    folder: Path = tmp_path_factory.mktemp("many")
    store = Conversations(folder / "conversations.sqlite3")
    with store.atomic():
        for number in range(650):
            conversation = store.create(f"chat {number}").id
            store.add_user(conversation, "ΟΔΟΣ" if number == 3 else "nothing")
    store.close()
    running = fake_site(folder, 400)
    running.start()
    yield running
    running.stop()


def test_every_chat_can_be_reached(browser: Browser, long_list: FakeSite) -> None:
    page = load(new_page(browser), long_list.url)
    rows = page.locator(".conversation")
    more = page.locator("#conversation-more")
    for shown in (200, 400, 600):
        expect(rows).to_have_count(shown)
        more.click()
    expect(rows).to_have_count(650)
    expect(more).to_be_hidden()
    rows.last.click()
    expect(rows.last).to_have_attribute("aria-current", "true")
    ask(page, "20 tokens")
    expect(rows.first).to_have_text("chat 0")
    expect(rows).to_have_count(650)
    page.fill("#conversation-search", "οδός")
    expect(rows).to_have_text(["chat 3"])
    page.context.close()
