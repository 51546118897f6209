"""Thoughts in the browser: a closed fold beside the answer, what is copied, what can be set."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.steps import ask, finished, reload, reply, send, setting
from tests.fakes_engine import PLAIN, THOUGHT

pytestmark = pytest.mark.browser


def test_a_fold_that_opens_to_tokens(page: Page) -> None:
    part = ask(page, "ponder hello")
    fold = part.locator(".thought")
    expect(fold.locator("summary")).to_contain_text("Thought for")
    expect(fold.locator("summary")).to_contain_text("tokens")
    body, answer = fold.locator(".thought-body"), part.locator(".reply-body:not(.thought-body)")
    expect(body).to_be_hidden()
    assert "better" not in answer.inner_text()
    fold.locator("summary").click()
    expect(body).to_be_visible()
    expect(body.locator("strong")).to_have_text("write")
    body.locator(".token", has_text="better").first.hover()
    expect(page.locator("#tip")).to_contain_text("better")
    answer.locator(".token").first.hover()
    expect(page.locator("#tip")).to_be_visible()


def test_copy_takes_the_answer(page: Page) -> None:
    part = ask(page, "ponder hello")
    part.get_by_role("button", name="Copy", exact=True).last.click()
    assert page.evaluate("navigator.clipboard.readText()") == PLAIN


def test_it_is_the_same_after_a_reload(page: Page) -> None:
    ask(page, "ponder hello")
    before = reply(page).inner_text()
    reload(page)
    expect(reply(page).locator(".thought summary")).to_contain_text("Thought for")
    assert reply(page).inner_text() == before
    assert "better" not in before


def test_while_it_streams_the_last_line_is_seen(page: Page) -> None:
    send(page, "ponder slowly, hello")
    summary = reply(page).locator(".thought summary")
    expect(summary).to_contain_text("Thinking…")
    expect(reply(page).locator(".thought-line")).to_be_visible()
    page.click("#stop")
    expect(summary).to_contain_text("Thought for")
    expect(reply(page).locator(".thought")).to_have_count(1)


def test_answer_now(page: Page) -> None:
    """By keyboard; the focus stays in the fold, whose tokens tell what ended it."""
    send(page, "ponder slowly, hello")
    part = reply(page)
    button = part.get_by_role("button", name="Answer now")
    button.focus()
    page.keyboard.press("Enter")
    part = finished(page)
    expect(part.locator(".thought summary")).to_contain_text("ended by you")
    expect(part.locator(".answer-now")).to_have_count(0)
    expect(part.locator(".thought summary")).to_be_focused()
    assert "little" not in (part.locator(".thought-body").text_content() or "")
    expect(part.locator(".reply-body:not(.thought-body)")).to_have_text(PLAIN.strip())
    page.keyboard.press("Enter")
    page.get_by_role("radio", name="Tokens").click()
    part.locator(".token.given").last.hover()
    expect(page.locator("#tip")).to_contain_text("Written without asking the model")
    reload(page)
    expect(reply(page).locator(".thought summary")).to_contain_text("ended by you")


def test_a_thought_that_its_budget_ended(page: Page) -> None:
    setting(page, "thinking_budget", "4")
    part = ask(page, "ponder hello")
    expect(part.locator(".thought summary")).to_contain_text("ended by the budget")


def test_what_can_be_set_is_what_the_template_has(page: Page) -> None:
    page.click("#open-settings")
    effort = page.locator("#setting-effort")
    expect(page.locator("#setting-thinking")).to_be_visible()
    expect(effort).to_be_visible()
    shown = effort.locator("option:not([hidden])").all_inner_texts()
    assert shown == ["Automatic", "Low", "High"]


def test_the_answer_alone_has_no_fold(page: Page) -> None:
    part = ask(page, "hello")
    expect(part.locator(".thought")).to_have_count(0)
    assert THOUGHT.splitlines()[0] not in part.inner_text()
