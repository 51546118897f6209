"""Drafting as the page shows it: the runway, predictability, what was almost said, copies."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.steps import ask, send, stop_after

pytestmark = pytest.mark.browser


def test_a_runway_while_a_reply_is_written(page: Page) -> None:
    send(page, "tell me slowly, 2000 tokens of it")
    expect(page.locator(".runway span").first).to_be_visible()
    fates = page.locator(".runway span").evaluate_all("all => all.map((one) => one.className)")
    assert set(fates) <= {"kept", "fell", "target"}
    stop_after(page, 1)
    expect(page.locator(".runway")).to_have_count(0)


def test_colours_by_predictability_with_a_map(page: Page) -> None:
    part = ask(page, "hello")
    page.get_by_role("radio", name="Predictability").click()
    levels = part.locator(".token").evaluate_all(
        "all => all.filter((one) => !/sure|likely|open|surprise/.test(one.className)).length"
    )
    assert levels == 0
    expect(page.locator("#key")).to_contain_text("surprise")
    expect(page.locator("#minimap i[class]").first).to_be_visible()
    page.get_by_role("radio", name="Outcome").click()
    expect(page.locator("#minimap")).to_be_hidden()


def test_what_it_almost_said(page: Page) -> None:
    part = ask(page, "hello")
    part.locator(".token.correction").first.hover()
    expect(page.locator("#tip")).to_contain_text("The target rejected the draft here")
    part.locator(".token.correction").first.click()
    dialog = page.get_by_role("dialog", name="What it almost said")
    expect(dialog).to_contain_text("written")
    expect(dialog).to_contain_text("rejected")
    expect(dialog.locator(".almost-rule").first).not_to_be_empty()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_a_tree_lists_every_candidate(page: Page) -> None:
    part = ask(page, "tree")
    part.locator(".token.correction").first.click()
    dialog = page.get_by_role("dialog", name="What it almost said")
    assert dialog.locator(".almost-candidate").count() > 1
    page.keyboard.press("Escape")
