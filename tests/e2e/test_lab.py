"""The Lab in a browser: measure, be advised, take the advice."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.steps import reload

pytestmark = pytest.mark.browser


def open_lab(page: Page) -> None:
    page.click("#open-lab")
    expect(page.locator("#lab-dialog")).to_be_visible()
    expect(page.locator(".lab-way").first).to_be_visible()


def open_lab_running(page: Page) -> None:
    page.click("#open-lab")
    expect(page.locator(".lab-progress button")).to_be_visible()


def test_measuring_ends_in_advice_that_one_click_takes(page: Page) -> None:
    open_lab(page)
    page.locator(".lab-way", has_text="SmolLM2 Draft 30M").locator("input").check()
    page.fill("#lab-count", "6")
    page.click("text=Measure >> nth=-1")
    advice = page.locator(".lab-advice")
    rows = page.locator(".lab-results tbody tr")
    expect(rows.nth(2)).to_contain_text("SmolLM2 Draft 30M")  # of this measurement, no earlier one
    expect(advice).to_contain_text("auto: ")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text(re.compile(r"n-gram lookup.*\d\.\d\d×"))
    expect(rows.nth(1).locator(".lab-bar i")).to_be_visible()
    advice.locator("button").click()
    expect(page.locator("#lab-dialog")).to_be_hidden()
    expect(page.locator(".engine-status.ready")).to_contain_text(
        re.compile("n-gram lookup|SmolLM2 Draft 30M")
    )


def test_one_prompt_is_no_advice_to_take(page: Page) -> None:
    open_lab(page)
    page.fill("#lab-count", "1")
    page.click("text=Measure >> nth=-1")
    advice = page.locator(".lab-advice")
    expect(advice).to_contain_text("on one prompt, which settles nothing")
    expect(advice.locator("button")).to_have_count(0)
    rows = page.locator(".lab-results tbody tr")
    expect(rows.nth(0)).to_contain_text("0% apart")
    expect(rows.nth(1)).to_contain_text(re.compile(r"\(\d\.\d\d×\)"))


def test_the_lab_says_what_is_wrong_with_a_wish(page: Page) -> None:
    open_lab(page)
    page.select_option("#lab-source", "pasted")
    expect(page.locator("#lab-pasted")).to_be_visible()
    page.click("text=Measure >> nth=-1")
    expect(page.locator("#lab-measure .field-error")).to_contain_text("paste at least one prompt")


def test_a_measurement_can_be_stopped_and_survives_a_reload(page: Page) -> None:
    open_lab(page)
    page.select_option("#lab-source", "pasted")
    page.fill("#lab-pasted", "slowly, 900 tokens\n\nagain slowly, 900 tokens")
    page.click("text=Measure >> nth=-1")
    expect(page.locator(".lab-progress")).to_contain_text("replies")
    reload(page)
    open_lab_running(page)
    page.locator(".lab-progress button").click()
    expect(page.locator(".lab-form")).to_be_visible()
    expect(page.locator(".lab-progress")).to_be_hidden()
