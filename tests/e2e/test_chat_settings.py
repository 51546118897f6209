"""Settings of one chat, presets and character cards in chromium."""

from __future__ import annotations

import base64

import pytest
from playwright.sync_api import Page, expect

from tests.card_files import card_png
from tests.e2e.shared_page import Watch
from tests.e2e.steps import answered, ask, finished, send

pytestmark = pytest.mark.browser

BODY = "#chat-settings-body"


def open_settings(page: Page) -> None:
    with answered(page, "chat_settings"):
        page.click("#open-chat-settings")


def origin(page: Page, name: str) -> str:
    return f"{BODY} .field:has(#chat-setting-{name}) .origin"


def test_a_setting_of_one_chat_and_the_way_back(page: Page) -> None:
    ask(page, "hello")
    open_settings(page)
    temperature = page.locator("#chat-setting-temperature")
    expect(temperature).to_have_value("0.7")
    expect(page.locator(origin(page, "temperature"))).to_contain_text("As in the general settings")
    temperature.fill("9")
    temperature.press("Tab")
    expect(page.locator(f"{BODY} .field-error", has_text="Temperature")).to_be_visible()
    temperature.fill("0.2")
    temperature.press("Tab")
    expect(page.locator(origin(page, "temperature"))).to_contain_text("Only in this chat")
    page.keyboard.press("Escape")
    page.click("#new-chat")
    open_settings(page)
    expect(temperature).to_have_value("0.7")
    page.keyboard.press("Escape")
    page.locator(".conversation").first.click()
    finished(page)
    open_settings(page)
    expect(temperature).to_have_value("0.2")
    page.locator(f"{origin(page, 'temperature')} button").click()
    expect(temperature).to_have_value("0.7")
    expect(page.locator(origin(page, "temperature"))).to_contain_text("As in the general settings")


def test_a_preset_from_saving_to_deleting(page: Page) -> None:
    open_settings(page)
    page.fill("#chat-setting-system_prompt", "Answer in one line.")
    page.press("#chat-setting-system_prompt", "Tab")
    expect(page.locator(origin(page, "system_prompt"))).to_contain_text("Only in this chat")
    page.fill("#preset-name", "Short")
    page.press("#preset-name", "Enter")
    row = page.locator(".preset-list li")
    expect(row).to_have_count(1)
    row.get_by_role("checkbox").check()
    row.get_by_role("button", name="Rename").click()
    row.get_by_role("textbox").fill("Brief")
    row.get_by_role("textbox").press("Enter")
    expect(row).to_contain_text("Brief")
    expect(row.get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("Escape")
    page.click("#new-chat")
    open_settings(page)
    expect(page.locator("#chat-preset")).to_have_value("Brief")
    expect(page.locator("#chat-setting-system_prompt")).to_have_value("Answer in one line.")
    page.keyboard.press("Escape")
    ask(page, "hello")
    open_settings(page)
    expect(page.locator("#chat-preset")).to_have_value("Brief")
    with answered(page, "chat_preset"):
        page.select_option("#chat-preset", "")
    expect(page.locator("#chat-setting-system_prompt")).to_have_value("")
    row.get_by_role("button", name="Delete").click()
    page.click("#ask-yes")
    expect(row).to_have_count(0)


def test_a_card_is_dropped_and_its_character_begins_a_chat(page: Page, watch: Watch) -> None:
    open_settings(page)
    packed = base64.b64encode(card_png()).decode()
    page.evaluate(
        """(packed) => {
          const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
          const data = new DataTransfer();
          data.items.add(new File([bytes], "ada.png"));
          data.items.add(new File(["{}"], "no card.json"));
          document.querySelector("#chat-settings-body")
            .dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
        }""",
        packed,
    )
    told = page.locator(".presets [role=status]")
    expect(told).to_contain_text("holds no character card")
    watch.clear()  # the browser logs that one was refused
    expect(page.locator(".preset-list li")).to_contain_text("Ada")
    with answered(page, "chat_preset"):
        page.select_option("#chat-preset", "Ada")
    expect(page.locator(BODY)).to_contain_text("Ada speaks in this chat.")
    page.keyboard.press("Escape")
    expect(page.locator(".message.reply")).to_contain_text("Hello User, I am Ada.")
    send(page, "hello")
    expect(page.locator(".message.reply")).to_have_count(2)
    expect(page.locator(".conversation").first).to_have_text("Ada")


def test_pins_and_folders_by_keyboard_on_a_narrow_page(page: Page) -> None:
    for number, text in enumerate(("hello one", "hello two", "hello three"), start=1):
        page.click("#new-chat")
        ask(page, text)
        expect(page.locator(".conversation")).to_have_count(number)
    page.set_viewport_size({"width": 380, "height": 760})
    page.click("#open-sidebar")
    page.locator(".conversation", has_text="one").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".conversation").first).to_have_text("hello one")
    expect(page.locator(".conversation").first).to_be_focused()
    page.get_by_role("button", name="Move hello two to a folder").press("Enter")
    page.keyboard.type("Work")
    page.keyboard.press("Enter")
    folder = page.locator(".folder")
    expect(folder).to_have_text("Work1")
    folder.press("Enter")
    expect(page.locator(".conversation", has_text="two")).to_have_count(0)
    expect(folder).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.fill("#conversation-search", "two")
    expect(page.locator(".conversation")).to_have_text(["hello two"])
    page.fill("#conversation-search", "")
    expect(page.locator(".conversation")).to_have_text(["hello one", "hello three"])
    page.reload()
    page.wait_for_selector(".forerun[data-ready]")
    page.click("#open-sidebar")
    expect(folder).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".conversation")).to_have_text(["hello one", "hello three"])
    folder.press("Enter")
    expect(page.locator(".conversation")).to_have_count(3)
    page.get_by_role("button", name="Rename folder Work").press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.type("Play")
    page.keyboard.press("Enter")
    expect(folder).to_have_text("Play1")
    page.get_by_role("button", name="Move hello two to a folder").press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    expect(folder).to_have_count(0)
