"""The page in chromium while answers are late or come in another order than they were asked for."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.held import Held
from tests.e2e.steps import ask, choose, finished, send, text_of, token_count

pytestmark = pytest.mark.browser

STREAMED = (
    "count => document.querySelectorAll('.message.reply.streaming .reply-body .token')"
    ".length > count"
)


def user_texts(page: Page) -> list[str]:
    return page.locator(".user-text").all_inner_texts()


def row(page: Page, title: str) -> Locator:
    return page.locator(".conversation", has_text=title)


def two_chats(page: Page) -> None:
    ask(page, "zebras, 20 tokens")
    page.click("#new-chat")
    ask(page, "quaggas, 20 tokens")


def test_of_two_quick_clicks_the_last_is_shown(page: Page) -> None:
    two_chats(page)
    with Held(page, "open") as held:
        page.click("#new-chat")
        row(page, "zebras").click()
        row(page, "quaggas").click()
        held.wait(3)
        held.release(2)
        expect(page.locator(".user-text")).to_have_text(["quaggas, 20 tokens"])
        held.release(1)
        held.release(0)
        page.wait_for_timeout(100)  # for what must not happen
        assert user_texts(page) == ["quaggas, 20 tokens"]
    expect(row(page, "quaggas")).to_have_attribute("aria-current", "true")
    ask(page, "more, 30 tokens", 2)
    assert user_texts(page) == ["quaggas, 20 tokens", "more, 30 tokens"]


def test_a_click_that_reaches_the_server_late_does_not_divert_the_stream(page: Page) -> None:
    ask(page, "zebras, 20 tokens")
    page.click("#new-chat")
    send(page, "quaggas slowly, 150 tokens")
    page.wait_for_function(STREAMED, arg=10)
    with Held(page, "open", on_the_way=True) as held:
        row(page, "zebras").click()
        row(page, "quaggas").click()
        held.wait(2)
        held.release(1)
        page.wait_for_function(STREAMED, arg=20)
        held.release(0)
        part = finished(page)
    assert token_count(part) == 150
    assert user_texts(page) == ["quaggas slowly, 150 tokens"]


def test_a_running_reply_stays_out_of_the_chat_clicked_meanwhile(page: Page) -> None:
    ask(page, "zebras, 20 tokens")
    before = text_of(page.locator(".message.reply"))
    page.click("#new-chat")
    send(page, "quaggas slowly, 100 tokens")
    page.wait_for_function(STREAMED, arg=10)
    with Held(page, "open") as held:
        row(page, "zebras").click()
        held.wait(1)
        expect(page.locator("#messages")).to_have_attribute("inert", "")
        page.wait_for_timeout(300)  # events go on coming
        held.release()
        expect(page.locator(".user-text")).to_have_text(["zebras, 20 tokens"])
    assert text_of(page.locator(".message.reply")) == before
    row(page, "quaggas").click()
    expect(page.locator(".user-text")).to_have_text(["quaggas slowly, 100 tokens"])
    assert token_count(finished(page)) == 100


def test_what_is_sent_right_after_new_chat_lands_in_it(page: Page) -> None:
    ask(page, "zebras, 20 tokens")
    with Held(page, "open") as held:
        page.click("#new-chat")
        send(page, "quaggas, 30 tokens")
        finished(page)
        held.release()
        page.wait_for_timeout(100)  # for what must not happen
        assert user_texts(page) == ["quaggas, 30 tokens"]
    expect(page.locator(".conversation")).to_have_count(2)


def test_two_quick_enters_make_one_chat_and_typed_text_stays(page: Page) -> None:
    with Held(page, "send") as held:
        send(page, "zebras, 20 tokens")
        page.locator("#message-box").press_sequentially("typed on")
        page.press("#message-box", "Enter")
        held.wait(1)
        page.wait_for_timeout(100)  # for what must not happen
        assert held.count() == 1
        held.release()
        finished(page)
    expect(page.locator("#message-box")).to_have_value("typed on")
    expect(page.locator(".conversation")).to_have_count(1)
    assert user_texts(page) == ["zebras, 20 tokens"]
    page.fill("#message-box", "")


def test_drafters_of_the_target_before_cannot_be_used(page: Page) -> None:
    with Held(page, "options") as held:
        choose(page, "#target-box", "coder")
        held.wait(1)
        expect(page.locator("#drafter-box .box-button")).to_have_attribute("aria-disabled", "true")
        expect(page.locator("#load")).to_be_disabled()
        choose(page, "#target-box", "starter")
        held.release(1)
        expect(page.locator("#load")).to_be_enabled()
        held.release(0)
        page.wait_for_timeout(100)  # for what must not happen
    page.click("#drafter-box .box-button")
    coder = page.locator("#drafter-box [data-value='model:coder-small']")
    expect(coder).to_have_attribute("aria-disabled", "true")
    page.keyboard.press("Escape")


def test_searches_answered_in_another_order(page: Page) -> None:
    two_chats(page)
    with Held(page, "search") as held:
        page.fill("#conversation-search", "zebras")
        held.wait(1)
        page.fill("#conversation-search", "quaggas")
        held.wait(2)
        held.release(1)
        expect(page.locator(".conversation")).to_have_text(["quaggas, 20 tokens"])
        held.release(0)
        page.wait_for_timeout(100)  # for what must not happen
        expect(page.locator(".conversation")).to_have_text(["quaggas, 20 tokens"])


def test_a_title_is_typed_on_while_a_reply_is_sent(page: Page) -> None:
    two_chats(page)
    first = page.locator("#conversation-list li").first
    first.hover()
    first.get_by_role("button", name="Rename").click()
    page.locator(".rename").fill("half a ti")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector(".forerun[data-ready]")
    ask(other, "more, 20 tokens", 2)
    other.close()
    expect(page.locator(".message.reply")).to_have_count(2)
    page.keyboard.type("tle")
    page.keyboard.press("Enter")
    expect(page.locator(".conversation").first).to_have_text("half a title")
