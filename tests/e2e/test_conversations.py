"""The page in chromium: conversations, models, settings, and what survives."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.shared_page import Watch, load
from tests.e2e.sites import FakeSite
from tests.e2e.steps import (
    ask,
    choose,
    finished,
    reload,
    reply,
    send,
    setting,
    stop_after,
    text_of,
    token_count,
)

pytestmark = pytest.mark.browser


def test_regenerate_replaces_the_reply(page: Page) -> None:
    ask(page, "first 30 tokens")
    ask(page, "second 40 tokens", 2)
    reply(page, 0).get_by_role("button", name="Write this reply again").click()
    expect(page.locator(".message")).to_have_count(2)
    assert token_count(finished(page)) == 30


def test_edit_sends_again_and_replaces_what_followed(page: Page) -> None:
    ask(page, "first 30 tokens")
    ask(page, "second 40 tokens", 2)
    first = page.locator(".message.user").first
    first.hover()
    first.get_by_role("button", name="Edit and send again").click()
    page.keyboard.press("Escape")
    expect(page.locator(".edit-box")).to_have_count(0)
    first.get_by_role("button", name="Edit and send again").click()
    page.fill(".edit-box", "changed 55 tokens")
    page.keyboard.press("Enter")
    expect(page.locator(".message")).to_have_count(2)
    assert token_count(finished(page)) == 55
    assert page.locator(".user-text").inner_text() == "changed 55 tokens"


def test_new_search_rename_delete_undo(page: Page) -> None:
    ask(page, "about zebras, 20 tokens")
    page.click("#new-chat")
    expect(page.locator("#welcome")).to_be_visible()
    ask(page, "about quaggas, 20 tokens")
    names = page.locator(".conversation")
    page.fill("#conversation-search", "zebras")
    expect(names).to_have_count(1)
    names.first.click()
    expect(page.locator(".user-text")).to_have_text("about zebras, 20 tokens")
    row = page.locator("#conversation-list li").first
    row.hover()
    row.get_by_role("button", name="Rename").click()
    page.locator(".rename").fill("Striped horses")
    page.keyboard.press("Enter")
    page.fill("#conversation-search", "striped")
    expect(names).to_have_text(["Striped horses"])
    row.hover()
    row.get_by_role("button", name="Delete").click()
    expect(page.locator("#conversation-empty")).to_have_text("No conversation contains this.")
    expect(page.locator("#welcome")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(names).to_have_text(["Striped horses"])


def test_two_pages_queue_and_both_finish(page: Page, site: FakeSite) -> None:
    first, second = page, load(page.context.new_page(), site.url)
    send(first, "one slowly, 200 tokens")
    first.wait_for_selector(".reply-body .token")
    send(second, "two 40 tokens")
    expect(reply(second).locator(".reply-progress")).to_contain_text("place 1")
    stop_after(first, 10)
    assert token_count(finished(first)) < 200
    assert token_count(finished(second)) == 40
    second.close()


def test_a_reload_in_mid_reply_does_not_stop_it(page: Page) -> None:
    send(page, "tell me slowly, 200 tokens of it")
    page.wait_for_function("document.querySelectorAll('.reply-body .token').length > 30")
    page.fill("#message-box", "typed meanwhile")
    page.reload()
    expect(page.locator(".message.reply.streaming .token").nth(30)).to_be_visible()
    expect(page.locator("#message-box")).to_have_value("typed meanwhile")
    part = finished(page)
    expect(part.locator(".reply-figures")).not_to_contain_text("stopped")
    assert token_count(part) == 200
    assert part.locator(".token.accepted").count() > 10


def test_page_survives_a_killed_server(page: Page, site: FakeSite, watch: Watch) -> None:
    assert token_count(ask(page, "before, 25 tokens")) == 25
    send(page, "tell me slowly, 2000 tokens of it")
    page.wait_for_function(
        "[...document.querySelectorAll('.message.reply')].at(-1).querySelectorAll('.token').length"
        " > 100"
    )
    assert watch.errors == []
    site.kill()
    expect(page.locator("#offline")).to_be_visible()
    site.start()
    expect(page.locator("#offline")).to_be_hidden()
    part = finished(page, 2)
    expect(part.locator(".reply-figures")).to_contain_text("interrupted")
    assert token_count(part) >= 40
    assert "Speculative decoding" in text_of(part)
    assert token_count(reply(page, 0)) == 25
    assert reply(page, 0).locator(".token.accepted").count() > 5
    expect(page.locator(".engine-status.ready")).to_be_visible()
    assert token_count(ask(page, "after, 35 tokens", 3)) == 35
    watch.errors.clear()  # of the time without a server


def test_dropdowns_grey_with_reasons_and_hide_nothing(page: Page) -> None:
    page.click("#target-box .box-button")
    targets = page.locator("#target-box [role=option]")
    expect(targets.first).to_be_visible()
    known = targets.evaluate_all("rows => rows.map(row => 'model:' + row.dataset.value)")
    page.keyboard.press("Escape")
    page.click("#drafter-box .box-button")
    rows = page.locator("#drafter-box [role=option]")
    expect(rows.first).to_be_visible()
    offered = rows.evaluate_all("rows => rows.map(row => row.dataset.value)")
    assert len(known) > 4
    assert {"ngram", "early-exit", *known} <= set(offered)
    coder = page.locator("#drafter-box [data-value='model:coder-small']")
    assert coder.get_attribute("aria-disabled") == "true"
    expect(coder).to_contain_text("Vocabulary 151,936 against 49,152")
    coder.click(force=True)
    assert coder.get_attribute("aria-selected") == "false"
    expect(page.locator("#drafter-box [data-value='model:tiny-draft']")).to_have_attribute(
        "aria-selected", "false"
    )
    page.keyboard.press("Escape")
    expect(page.locator("#drafter-box .box-popup")).to_be_hidden()
    expect(page.locator("#drafter-box .box-button")).to_be_focused()


def test_dropdown_by_keyboard(page: Page) -> None:
    page.focus("#target-box .box-button")
    page.keyboard.press("ArrowDown")
    page.keyboard.type("coder 1.5")
    expect(page.locator("#target-box [role=option]")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#target-box .box-value")).to_have_text("Qwen2.5 Coder 1.5B Instruct")


def test_load_combines_drafters_and_a_failed_load_keeps_the_old(page: Page) -> None:
    choose(page, "#drafter-box", "model:tiny-draft")
    page.keyboard.press("Escape")
    page.click("#load")
    status = page.locator("#engine-status")
    expect(status).to_contain_text("SmolLM2 135M Instruct with n-gram lookup, SmolLM2 Draft 30M")
    choose(page, "#target-box", "broken")
    page.click("#load")
    expect(status).to_contain_text("ends in the middle of a tensor")
    expect(status).to_contain_text("SmolLM2 135M Instruct is still loaded")
    choose(page, "#target-box", "starter")
    expect(page.locator("#drafter-box .box-value")).to_have_text("n-gram lookup")
    page.click("#load")
    expect(status).to_contain_text("SmolLM2 135M Instruct with n-gram lookup ·")


def test_little_memory_is_asked_about_first(page: Page) -> None:
    choose(page, "#target-box", "coder")
    page.click("#load")
    expect(page.locator("#ask-dialog")).to_contain_text("Needs 11.4 GB of 12.0 GB free")
    page.click("#ask-no")
    expect(page.locator("#engine-status")).to_contain_text("SmolLM2 135M Instruct with")


def test_settings_are_checked_kept_and_used(page: Page) -> None:
    setting(page, "seed", "77")
    setting(page, "speculate", "always")
    page.click("#open-settings")
    page.fill("#setting-top_p", "7")
    page.locator("#setting-top_p").blur()
    expect(page.locator("#setting-top_p-error")).to_contain_text("between 0.01 and 1")
    page.locator("#setting-top_p").locator("xpath=..").locator(".help").hover()
    expect(page.locator("#setting-top_p-help")).to_be_visible()
    page.keyboard.press("Escape")
    part = ask(page, "now 20 tokens")
    expect(part.locator(".reply-figures")).to_contain_text("seed 77")
    reload(page)
    page.click("#open-settings")
    expect(page.locator("#setting-seed")).to_have_value("77")
    expect(page.locator("#setting-top_p")).to_have_value("0.95")
    page.keyboard.press("Escape")
    setting(page, "context_length", "200000")
    expect(page.locator("#load")).to_have_attribute("title", "Load again with the changed settings")
    page.click("#load")
    expect(page.locator("#engine-status")).to_contain_text("a context of 16,384 would fit")
    expect(page.locator("#engine-status")).to_contain_text("SmolLM2 135M Instruct is still loaded")
    setting(page, "context_length", "0")
    page.click("#load")
    expect(page.locator(".engine-status.ready")).to_be_visible()


def test_downloads_show_progress_and_survive_a_reload(page: Page) -> None:
    page.click("#open-models")
    page.locator("[data-model=large]").get_by_role("button", name="Download").click()
    row = page.locator("[data-download=large]")
    expect(row).to_contain_text("2.51 GB of 5.03 GB")
    expect(row).to_contain_text("left")
    reload(page)
    page.click("#open-models")
    row.get_by_role("button", name="Cancel").click()
    expect(row).to_contain_text("cancelled")
    row.get_by_role("button", name="Retry").click()
    row.get_by_role("button", name="Cancel").click()
    row.get_by_role("button", name="Dismiss").click()
    expect(row).to_have_count(0)
    page.fill("#repository", "owner/repo")
    page.keyboard.press("Enter")
    expect(page.locator("#models-body")).to_contain_text("model-Q8_0.gguf")
    page.fill("#repository", "no/such")
    page.keyboard.press("Enter")
    expect(page.locator("#models-body")).to_contain_text("no such repository")


def test_log_and_legend(page: Page) -> None:
    page.click("#open-log")
    loaded = page.get_by_text("loaded meta data")
    expect(loaded).to_be_visible()
    page.select_option("#log-level", "30")
    expect(loaded).to_be_hidden()
    expect(page.locator("#log-lines .level-30")).to_be_visible()
    page.select_option("#log-level", "40")
    expect(page.locator(".log-nothing")).to_have_text("No line of this level so far.")
    page.select_option("#log-level", "0")
    page.keyboard.press("Escape")
    page.click("#open-legend")
    expect(page.locator("#legend-list")).to_contain_text("mean accepted length")


def test_narrow_page_has_drawers_and_no_sideways_scroll(page: Page) -> None:
    page.set_viewport_size({"width": 380, "height": 760})
    ask(page, "markdown please")
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    page.click("#open-sidebar")
    expect(page.locator("#sidebar #new-chat")).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.click("#open-panel")
    expect(page.locator("#panel h2")).to_be_in_viewport()
    page.get_by_role("button", name="Close live figures").click()
    expect(page.locator("#open-panel")).to_be_focused()


@pytest.mark.parametrize(("width", "height"), [(380, 800), (720, 450)])
def test_the_head_leaves_a_small_page_to_the_chat(page: Page, width: int, height: int) -> None:
    """A phone, and 1440 by 900 at twice its size. What the colours mean is still there."""
    ask(page, "markdown please")
    page.set_viewport_size({"width": width, "height": height})
    head = page.locator(".head").bounding_box()
    assert head is not None
    assert head["height"] < 0.15 * height
    for word in ("accepted", "correction", "bonus", "plain"):
        mark = page.locator("#key").get_by_text(word)
        expect(mark).to_be_in_viewport()
        assert mark.evaluate("one => one.scrollWidth <= one.clientWidth"), word
    page.click("#open-pair")
    choose(page, "#drafter-box", "recycle")
    page.keyboard.press("Escape")
    page.click("#load")
    expect(page.locator("#pair .engine-status.ready")).to_contain_text("Token recycling")
    page.keyboard.press("Escape")
    expect(page.locator("#pair-value")).to_contain_text("n-gram lookup + Token recycling")


def test_every_control_has_a_name(page: Page) -> None:
    ask(page, "markdown please")
    unnamed = page.evaluate(
        "[...document.querySelectorAll('.forerun :is(button, input, textarea, select)')]"
        ".filter(e => !(e.textContent.trim() || e.ariaLabel || e.labels?.length ||"
        " e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)"
    )
    assert unnamed == []


def test_a_drafter_keeps_its_own_settings(page: Page) -> None:
    choose(page, "#drafter-box", "recycle")
    nodes = page.locator("[data-tuning='recycle tree']")
    nodes.fill("99")
    nodes.blur()
    expect(nodes).to_have_value("64")
    layers = page.locator("[data-tuning='early-exit layers']")
    expect(layers).to_have_count(0)
    page.click("#load")
    expect(page.locator(".engine-status.ready")).to_contain_text("Token recycling, tree of 64")
    page.reload()
    expect(page.locator(".engine-status.ready")).to_contain_text("Token recycling, tree of 64")
    expect(page.locator("#load")).to_have_text("Reload")
    page.click("#drafter-box .box-button")
    expect(nodes).to_have_value("64")


def test_an_edit_that_fails_leaves_the_version_before(page: Page) -> None:
    ask(page, "first 30 tokens")
    first = page.locator(".message.user").first
    first.hover()
    first.get_by_role("button", name="Edit and send again").click()
    page.fill(".edit-box", "die, please")
    page.keyboard.press("Enter")
    expect(page.locator(".note.error")).to_be_visible()
    first.get_by_role("button", name="Version before").click()
    expect(page.locator(".user-text")).to_have_text("first 30 tokens")
    assert token_count(finished(page)) == 30
    expect(page.locator(".message")).to_have_count(2)
