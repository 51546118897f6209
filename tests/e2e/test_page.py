"""The page in chromium, with the real server and the scripted engine: reading a reply."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.steps import (
    answered,
    ask,
    finished,
    reload,
    reply,
    send,
    stop_after,
    text_of,
    token_count,
)
from tests.fakes_engine import MARKDOWN, tokens_of

pytestmark = pytest.mark.browser


def test_reply_streams_and_keeps_its_figures(page: Page) -> None:
    send(page, "tell me about 300 tokens of it")
    page.wait_for_function(
        "document.querySelectorAll('.reply-body .token').length > 20 &&"
        " document.querySelector('#stop').offsetParent"
    )
    part = finished(page)
    expect(page.locator("#stop")).to_be_hidden()
    figures = part.locator(".reply-figures").inner_text()
    assert token_count(part) == 300
    for expected in ("tokens/s", "% accepted", "per round", "prompt 52, 12 reused", "seed 4711"):
        assert expected in figures
    panel = page.locator("#figures").inner_text()
    for expected in ("acceptance rate", "mean accepted length", "draft", "target", "n-gram lookup"):
        assert expected in panel
    expect(page.locator(".position")).to_have_count(5)


def test_markdown_becomes_elements_and_every_character_knows_its_token(page: Page) -> None:
    part = ask(page, "markdown please")
    body = part.locator(".reply-body")
    for selector in ("h4", "strong", "em", "table th", "ol > li", "ol ul li", "blockquote"):
        assert body.locator(selector).count() >= 1, selector
    assert body.locator("a").first.get_attribute("href") == "https://example.invalid/idea"
    assert "keep it with probability min(1, p / q)" in body.locator("pre code").inner_text()
    tokens = tokens_of(MARKDOWN)
    spans = body.locator(".token").evaluate_all(
        "all => all.map(span => [Number(span.dataset.index), span.textContent])"
    )
    assert len(spans) > 100
    for index, text in spans:
        assert text in tokens[index]


def test_code_is_copied_as_written(page: Page) -> None:
    part = ask(page, "markdown please")
    assert part.locator(".code-head span").first.inner_text() == "python"
    part.locator(".copy-code").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    code = MARKDOWN.partition("```python\n")[2].partition("\n```")[0]
    assert copied == code


def test_rejected_drafts_are_seen_but_not_copied(page: Page) -> None:
    part = ask(page, "markdown please")
    ghost = part.locator(".ghost").first
    expect(ghost).to_be_visible()
    assert ghost.get_attribute("aria-hidden") == "true"
    assert part.locator(".ghost").count() > 20
    part.get_by_role("button", name="Copy", exact=True).last.click()
    assert page.evaluate("navigator.clipboard.readText()") == MARKDOWN
    selected = page.evaluate(
        "() => { const range = document.createRange();"
        "range.selectNodeContents(document.querySelector('.reply-body h4'));"
        "getSelection().removeAllRanges(); getSelection().addRange(range);"
        "return getSelection().toString(); }"
    )
    assert selected.strip() == "Speculative decoding"
    assert "Speculative decoding" in text_of(part)


def test_rejected_branches_of_a_tree_are_told_apart(page: Page) -> None:
    part = ask(page, "show branches")
    ghosts = part.locator(".ghost").evaluate_all(
        "all => all.map(ghost => "
        "[ghost.dataset.index, ghost.dataset.text, ghost.className.replace('ghost ', '')])"
    )
    assert ghosts == [
        ["0", "Bushes", "first"], ["0", " grow", "next"], ["0", " tall", "next"],
        ["0", " stand", "fork"], ["1", " were", "first"], ["2", " cut", "first"],
        ["2", " down", "next"],
    ], part.locator(".reply-body").inner_html()  # fmt: skip
    edges = part.locator(".ghost.fork").evaluate("one => getComputedStyle(one).borderLeftStyle")
    assert edges == "dotted"
    tip = page.locator("#tip")
    part.locator(".token").first.hover()
    expect(tip).to_contain_text("Bushes·grow·tall  |  Bushes·stand")
    part.locator(".ghost.fork").hover()
    expect(tip).to_contain_text("Bushes·stand")
    expect(tip).to_contain_text("rejected")
    assert text_of(part).strip() == "Trees are green"


def test_tooltip_by_pointer_and_by_keyboard(page: Page) -> None:
    part = ask(page, "markdown please")
    tip = page.locator("#tip")
    part.locator(".token.accepted.drafter-0, .token.accepted.drafter-1").first.hover()
    expect(tip).to_be_visible()
    pattern = r"accepted\s+A drafter proposed[^\n]+\s+p \(target\)\s+[01]\.\d+\s+q \(drafter\)\s+"
    pattern += r"(point mass|[01]\.\d+)\s+"
    assert re.search(pattern + r"drafter\s+(n-gram lookup|SmolLM2 Draft 30M)\s+draft position\s+\d",
                     tip.inner_text())  # fmt: skip
    part.locator(".ghost").first.hover()
    expect(tip).to_contain_text("rejected")
    body = part.locator(".reply-body")
    body.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(tip).to_be_visible()
    assert "p (target)" in (body.get_attribute("aria-description") or "")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_switches_change_the_drawing_and_are_remembered(page: Page) -> None:
    part = ask(page, "tell me about 120 tokens of it")
    app = page.locator(".forerun")
    page.get_by_role("radio", name="Tokens").click()
    assert part.locator(".token-list .token").count() == 120
    page.get_by_role("radio", name="Drafter").click()
    with answered(page, "view"):
        page.locator("#ghosts").click()
    expect(part.locator(".ghost").first).to_be_hidden()
    expect(page.locator("#key")).to_contain_text("SmolLM2 Draft 30M")
    reload(page)
    shown = {name: app.get_attribute(f"data-{name}") for name in ("view", "colour", "ghosts")}
    assert shown == {"view": "tokens", "colour": "drafter", "ghosts": "false"}
    assert reply(page).locator(".token-list .token").count() == 120
    expect(page.locator("#key")).to_contain_text("SmolLM2 Draft 30M")


def test_outcome_is_not_told_by_colour_alone(page: Page) -> None:
    part = ask(page, "tell me about 300 tokens of it")
    styles = {
        kind: part.locator(f".token.{kind}").first.evaluate(
            "span => getComputedStyle(span).textDecorationLine + ' ' +"
            "getComputedStyle(span).textDecorationStyle"
        )
        for kind in ("accepted", "correction", "bonus", "plain")
    }
    assert len(set(styles.values())) == 4, styles


def test_hostile_reply_stays_text(page: Page) -> None:
    part = ask(page, "hostile")
    body = part.locator(".reply-body")
    assert body.locator("img, script, iframe, svg:not(.icon), object, embed, form").count() == 0
    links = body.locator("a").evaluate_all("all => all.map(link => link.getAttribute('href'))")
    assert links == [None, None]
    shown = body.inner_text()
    for expected in ("<img src=x onerror=", "{{value}} ${window.pwned=4}", "<b> é😀", "</td>"):
        assert expected in shown
    assert page.evaluate("window.pwned") is None


def test_hostile_user_text_stays_text(page: Page) -> None:
    text = "<img src=x onerror=window.pwned=1> hello {{7*7}} ${window.pwned=2}"
    ask(page, text)
    assert page.locator(".user-text").inner_text() == text
    assert page.locator(".conversation[aria-current]").inner_text().startswith("<img src=x")
    assert page.evaluate("window.pwned") is None


def test_stop_ends_the_reply_and_keeps_it(page: Page) -> None:
    send(page, "tell me 3000 tokens of it")
    stop_after(page, 40)
    part = finished(page)
    expect(part.locator(".reply-figures")).to_contain_text("stopped")
    assert 40 <= token_count(part) < 3000
    expect(page.locator("#send")).to_be_visible()


def test_full_context_offers_a_new_chat_or_a_larger_context(page: Page) -> None:
    part = ask(page, "fill the context with 60 tokens")
    expect(part.locator(".note.warn")).to_contain_text("The context is full")
    part.get_by_role("button", name="Larger context").click()
    expect(page.locator("#setting-context_length")).to_be_focused()
    page.keyboard.press("Escape")
    part.get_by_role("button", name="New chat").click()
    expect(page.locator("#welcome")).to_be_visible()


def test_too_long_a_conversation_can_be_trimmed(page: Page) -> None:
    part = ask(page, "this is too long, with 50 tokens")
    expect(part.locator(".note.error")).to_contain_text("9,000 tokens")
    part.get_by_role("button", name="Leave out the oldest messages").click()
    expect(page.locator(".reply-figures")).to_contain_text("50 tokens")


def test_dead_engine_is_told_and_the_next_message_works(page: Page) -> None:
    part = ask(page, "please die at 300 tokens")
    expect(part.locator(".note.error")).to_contain_text("ended unexpectedly")
    assert token_count(part) > 30
    assert token_count(ask(page, "and now 20 tokens", 2)) == 20


def test_new_text_scrolls_only_at_the_end(page: Page) -> None:
    send(page, "tell me 1500 tokens of it")
    page.wait_for_function("document.querySelector('#transcript').scrollTop > 200")
    page.evaluate("document.querySelector('#transcript').scrollTop = 0")
    expect(page.locator("#to-end")).to_be_visible()
    before = page.locator(".reply-body .token").count()
    page.wait_for_function(
        "before => document.querySelectorAll('.reply-body .token').length > before + 60",
        arg=before,
    )
    assert page.evaluate("document.querySelector('#transcript').scrollTop") == 0
    page.click("#to-end")
    page.keyboard.press("Escape")
    finished(page)
    page.wait_for_function(
        "(() => { const box = document.querySelector('#transcript');"
        "return box.scrollHeight - box.scrollTop - box.clientHeight < 3; })()"
    )


def test_sixteen_draft_positions_fit_into_the_panel(page: Page) -> None:
    """As many as automatic drafting goes; replies of the scripted engine have fewer."""
    ask(page, "hello")
    right = page.evaluate(
        """() => {
          const positions = document.querySelector(".positions");
          while (positions.children.length < 16)
            positions.append(positions.firstElementChild.cloneNode(true));
          const edge = positions.getBoundingClientRect().right;
          const bars = [...positions.children].map((bar) => bar.getBoundingClientRect());
          return Math.max(...bars.map((bar) => bar.right)) - edge;
        }"""
    )
    assert right <= 0.5
