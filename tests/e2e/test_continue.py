"""Replies that are written on, and versions from a rejected word on, in chromium."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.steps import (
    ask,
    finished,
    reload,
    reply,
    send,
    stop_after,
    text_of,
    token_count,
)

pytestmark = pytest.mark.browser


def go_on(part: Locator) -> Locator:
    return part.get_by_role("button", name="Continue", exact=True)


def test_a_stopped_reply_goes_on_in_its_place(page: Page) -> None:
    send(page, "slowly, 2000 tokens")
    stop_after(page, 8)
    finished(page)
    part = reply(page)
    half = token_count(part)
    go_on(part).focus()
    page.keyboard.press("Enter")
    expect(part).to_have_class(re.compile("streaming"))
    assert page.evaluate("document.activeElement.className") == "reply-body"
    expect(go_on(part)).to_have_count(0)
    expect(part.locator(".runway span").first).to_be_attached()
    reload(page)  # in the middle
    expect(reply(page)).to_have_class(re.compile("streaming"))
    page.click("#stop")
    part = finished(page)
    assert token_count(part) > half
    expect(page.locator(".message.reply")).to_have_count(1)
    expect(go_on(part)).to_be_visible()
    assert text_of(part).startswith("Speculative decoding")


def test_the_element_stays_and_the_button_goes_where_messages_follow(page: Page) -> None:
    part = ask(page, "hello, early, 40 tokens")
    part.evaluate("element => (element.dataset.mine = 'yes')")
    half = token_count(part)
    go_on(part).click()
    expect(part.locator(".reply-figures")).to_contain_text("40 tokens")
    assert part.evaluate("element => element.dataset.mine") == "yes"
    assert half < 40
    ask(page, "hello, early, 41 tokens", 2)
    expect(go_on(reply(page))).to_be_visible()
    ask(page, "hello", 3)
    expect(go_on(reply(page, 1))).to_be_hidden()


def test_a_thought_goes_on_in_its_fold(page: Page) -> None:
    send(page, "ponder slowly, hello")
    summary = reply(page).locator(".thought summary")
    expect(summary).to_contain_text("Thinking…")
    page.click("#stop")
    expect(summary).to_contain_text("Thought for")
    go_on(reply(page)).click()
    expect(summary).to_contain_text("Thinking…")
    expect(reply(page).locator(".thought-line")).to_be_visible()
    expect(reply(page).get_by_role("button", name="Answer now")).to_be_enabled()
    finished(page)
    expect(summary).to_contain_text("Thought for")
    expect(reply(page).locator(".thought")).to_have_count(1)
    expect(reply(page).locator(".reply-body:not(.thought-body)")).to_contain_text("Hello!")


def test_a_version_from_a_rejected_word_on(page: Page) -> None:
    ask(page, "hello, 40 tokens")
    reply(page).locator(".token.correction").first.click()
    dialog = page.get_by_role("dialog", name="What it almost said")
    word = dialog.locator(".almost-candidate:not(.written) code").first.inner_text()
    dialog.get_by_role("button", name="Continue from the rejected word").first.click()
    expect(dialog).to_be_hidden()
    expect(reply(page).locator(".version-place")).to_have_text("2/2")
    finished(page)
    assert word.strip("·↵ ")[:3] in text_of(reply(page))
