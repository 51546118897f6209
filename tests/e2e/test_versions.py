"""Versions of messages in chromium: made, chosen, compared, deleted and brought back."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.shared_page import load, new_page
from tests.e2e.sites import FakeSite
from tests.e2e.steps import answered, ask, finished, menu, reload, reply, send, text_of

pytestmark = pytest.mark.browser


def place(message: Locator) -> Locator:
    return message.locator(".version-place")


def user(page: Page, number: int = -1) -> Locator:
    return page.locator(".message.user").nth(number)


def test_versions_are_made_and_chosen_and_nothing_is_lost(page: Page) -> None:
    ask(page, "first, 20 tokens")
    ask(page, "second, 20 tokens", 2)
    expect(place(reply(page))).to_be_hidden()
    reply(page).get_by_role("button", name="Write this reply again").click()
    expect(place(reply(page))).to_have_text("2/2")
    finished(page, 2)

    user(page, 0).hover()
    user(page, 0).get_by_role("button", name="Edit and send again").click()
    page.fill(".edit-box", "first, edited, 25 tokens")
    page.press(".edit-box", "Enter")
    expect(place(user(page, 0))).to_have_text("2/2")
    finished(page, 1)
    expect(page.locator(".message.user")).to_have_count(1)

    user(page, 0).get_by_role("button", name="Version before").click()
    expect(page.locator(".message.user")).to_have_count(2)
    expect(place(user(page, 0))).to_have_text("1/2")
    expect(place(reply(page))).to_have_text("2/2")
    reload(page)
    expect(page.locator(".message.user")).to_have_count(2)
    expect(place(reply(page))).to_have_text("2/2")


def test_by_keyboard_with_the_focus_where_it_was(page: Page) -> None:
    ask(page, "hello")
    reply(page).get_by_role("button", name="Write this reply again").click()
    expect(place(reply(page))).to_have_text("2/2")
    finished(page)
    reply(page).locator(".reply-body").focus()
    page.keyboard.press("Alt+ArrowLeft")
    expect(place(reply(page))).to_have_text("1/2")
    page.keyboard.press("Alt+ArrowRight")
    expect(place(reply(page))).to_have_text("2/2")
    page.keyboard.press("Alt+ArrowRight")  # there is none: nothing happens
    expect(place(reply(page))).to_have_text("2/2")


def test_a_reply_is_edited_and_the_chat_goes_on_from_it(page: Page) -> None:
    ask(page, "hello")
    before = text_of(reply(page))
    menu(page, reply(page), "Edit this reply")
    page.fill(".edit-box", "as I *want* it")
    page.get_by_role("button", name="Keep").click()
    expect(reply(page).locator(".reply-body em")).to_have_text("want")
    expect(place(reply(page))).to_have_text("2/2")
    reply(page).get_by_role("button", name="Version before").click()
    expect(place(reply(page))).to_have_text("1/2")
    assert text_of(reply(page)) == before


def test_deleting_asks_for_more_than_one_and_can_be_undone(page: Page) -> None:
    ask(page, "hello")
    ask(page, "again", 2)
    menu(page, reply(page), "Delete")
    expect(page.locator(".message.reply")).to_have_count(1)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".message.reply")).to_have_count(2)
    menu(page, user(page, 0), "Delete")
    expect(page.locator("#ask-title")).to_have_text("Delete 4 messages?")
    page.click("#ask-yes")
    expect(page.locator(".message")).to_have_count(0)
    page.get_by_role("button", name="Undo").last.click()
    expect(page.locator(".message")).to_have_count(4)


def test_a_fork_is_opened_and_the_source_stays(page: Page) -> None:
    ask(page, "hello")
    ask(page, "again", 2)
    source = page.url
    menu(page, reply(page, 0), "Fork into a new chat")
    expect(page.locator(".message")).to_have_count(2)
    assert page.url != source
    ask(page, "from here on", 2)
    page.goto(source)
    expect(page.locator(".message")).to_have_count(4)


def test_versions_side_by_side(page: Page) -> None:
    ask(page, "hello")
    reply(page).get_by_role("button", name="Write this reply again").click()
    expect(place(reply(page))).to_have_text("2/2")
    finished(page)
    menu(page, reply(page), "Compare the versions")
    columns = page.locator(".compare-column")
    expect(columns).to_have_count(2)
    for at in range(2):
        expect(columns.nth(at)).to_contain_text("tokens/s")
        expect(columns.nth(at)).to_contain_text("seed")
    with answered(page, "select"):
        columns.nth(0).get_by_role("button", name="Show this one").click()
    expect(place(reply(page))).to_have_text("1/2")


def test_two_tabs_show_the_same_version(page: Page, site: FakeSite) -> None:
    ask(page, "hello")
    browser = page.context.browser
    assert browser is not None
    other = new_page(browser)
    try:
        load(other, page.url)
        expect(other.locator(".message")).to_have_count(2)
        reply(other).get_by_role("button", name="Write this reply again").click()
        for one in (page, other):
            expect(place(reply(one))).to_have_text("2/2")
            finished(one)
        reply(page).get_by_role("button", name="Version before").click()
        for one in (page, other):
            expect(place(reply(one))).to_have_text("1/2")
    finally:
        other.context.close()


def test_another_version_is_looked_at_while_one_is_written(page: Page) -> None:
    ask(page, "hello")
    first = text_of(reply(page))
    user(page).hover()
    user(page).get_by_role("button", name="Edit and send again").click()
    page.fill(".edit-box", "tell me slowly, 2000 tokens of it")
    page.press(".edit-box", "Enter")
    expect(page.locator(".message.reply.streaming .token").nth(20)).to_be_visible()
    user(page).get_by_role("button", name="Version before").click()
    expect(place(user(page))).to_have_text("1/2")
    assert text_of(reply(page)) == first
    expect(page.locator("#stop")).to_be_visible()
    user(page).get_by_role("button", name="Next version").click()
    expect(page.locator(".message.reply.streaming .token").nth(20)).to_be_visible()
    page.click("#stop")
    expect(finished(page).locator(".reply-figures")).to_contain_text("stopped")
    send(page, "and on, 20 tokens")
    finished(page, 2)
