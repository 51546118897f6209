"""The Train dialog in chromium, with a scripted trainer."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.sites import FakeSite
from tests.e2e.steps import answered, power_cut, reload

pytestmark = pytest.mark.browser


def open_form(page: Page) -> None:
    with answered(page, "train_options"):
        page.click("#open-train")
    expect(page.locator(".train-form")).to_be_visible()


def test_a_training_from_the_form_over_a_power_cut_to_its_use(page: Page, site: FakeSite) -> None:
    open_form(page)
    estimate = page.locator("#train-estimate")
    expect(estimate).to_contain_text("Every 100,000 tokens of data take")
    page.select_option("#train-unit", "tokens")
    page.fill("#train-amount", "900000000")
    expect(estimate).to_contain_text("too much")
    expect(page.locator(".train-form [type=submit]")).to_be_disabled()
    page.select_option("#train-unit", "minutes")
    expect(page.locator(".train-form [type=submit]")).to_be_enabled()
    page.click(".kind:has([value=eagle3])")
    expect(page.locator("#train-depth")).to_be_visible()
    expect(page.locator("#train-heads")).to_be_hidden()
    page.fill("#train-name", "waits")
    page.fill("#train-texts", "/nowhere/at/all")
    page.click(".train-form [type=submit]")
    expect(page.locator(".train-form .field-error")).to_contain_text("does not exist")
    page.fill("#train-texts", "")
    page.click(".train-form [type=submit]")
    expect(page.locator(".curve polyline")).to_have_count(4)
    expect(page.locator(".train-key")).to_contain_text("next token 40%")

    power_cut(page, site)
    with answered(page, "train_options"):
        page.click("#open-train")
    expect(page.locator(".train-end")).to_contain_text("Interrupted")
    page.get_by_role("button", name="Resume").click()
    stop = page.get_by_role("button", name="Stop and keep the best")
    expect(stop).to_be_visible()

    reload(page)  # the training goes on without the page
    with answered(page, "train_options"):
        page.click("#open-train")
    expect(page.locator(".train-form")).to_be_hidden()
    stop.click()
    card = page.locator(".train-card")
    expect(card).to_contain_text("eagle3:waits")
    expect(card).to_contain_text("48,200 tokens")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#train-dialog")).to_be_hidden()
    page.click("#open-train")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".train-form")).to_be_visible()
