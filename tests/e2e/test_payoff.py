"""Whether drafting paid, and the replay of a reply, in the browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.steps import ask, menu, reload, reply

pytestmark = pytest.mark.browser
PAID = re.compile(
    r"\d\.\d× (?:faster than plain here|plain decoding.s speed, within the noise)"
    r" \(\d\.\d+–\d\.\d+\), [\d.]+ m?s saved"
)


def test_figures_footer_and_replay_are_there_after_a_reload(page: Page) -> None:
    ask(page, "please, 200 tokens")
    tile = page.locator(".tiles > div").first
    expect(tile).to_contain_text("speed against plain")
    expect(tile).to_contain_text("saved")
    footer = reply(page).locator(".reply-figures")
    expect(footer).to_have_text(PAID)
    before = footer.inner_text()
    reload(page)
    assert reply(page).locator(".reply-figures").inner_text() == before
    expect(tile).to_contain_text("saved")

    menu(page, reply(page), "Replay how it was written")
    dialog, slider = page.locator("#replay-dialog"), page.locator("#replay-body input")
    tracks = dialog.locator(".replay-text")
    expect(tracks).to_have_count(2)
    dialog.get_by_label("Speed of the replay").select_option("4")
    expect(dialog.get_by_role("button", name="Play")).to_be_visible(timeout=20_000)
    texts = tracks.all_text_contents()
    assert texts[0] == texts[1] != ""
    slider.focus()
    rounds = int(slider.get_attribute("max") or 0)
    page.keyboard.press("ArrowLeft")
    assert slider.input_value() == str(rounds - 1)
    slider.fill("0")
    expect(tracks.first).to_have_text("")
    page.keyboard.press("ArrowRight")
    assert slider.input_value() == "1"
    assert tracks.first.locator(".token").count() > 0
    page.keyboard.press("Space")
    expect(dialog.get_by_role("button", name="Pause")).to_be_visible()
    page.keyboard.press("Space")
    expect(dialog.get_by_role("button", name="Play")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_without_motion_the_replay_goes_by_rounds_and_has_thoughts(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    try:
        ask(page, "ponder hello")
        menu(page, reply(page), "Replay how it was written")
        dialog, slider = page.locator("#replay-dialog"), page.locator("#replay-body input")
        step = dialog.get_by_role("button", name="Next round")
        step.click()
        step.click()
        assert slider.input_value() == "2"
        for _ in range(int(slider.get_attribute("max") or 0) - 2):
            step.click()
        text = dialog.locator(".replay-text").first
        expect(text).to_contain_text("write")
        expect(text).to_contain_text("Hello!")
        page.keyboard.press("Escape")
    finally:
        page.emulate_media(reduced_motion="no-preference")


def test_where_it_did_not_pay_one_button_changes_it(page: Page) -> None:
    ask(page, "dear drafts, 200 tokens")
    note = page.locator(".note.advice")
    expect(note).to_contain_text("Drafting did not pay in this chat.")
    expect(note).to_have_count(1)
    note.get_by_role("button").first.click()
    expect(note).to_have_count(0)
    expect(page.locator(".toast")).to_be_visible()
    expect(page.locator(".engine-status.ready")).not_to_contain_text("with n-gram lookup")
    reload(page)
    expect(note).to_have_count(0)
