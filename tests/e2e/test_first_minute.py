"""What a newcomer meets first, in chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.sites import FakeSite
from tests.e2e.steps import answered, ask, finished, reload

pytestmark = pytest.mark.browser


def test_a_prompt_of_the_empty_page_is_sent_by_one_click(page: Page) -> None:
    prompts = page.locator(".first-prompt")
    expect(prompts).to_have_count(3)
    expect(page.locator("#welcome")).not_to_contain_text("Choose a model")
    prompts.first.click()
    finished(page)
    expect(page.locator(".message.user")).to_contain_text("def variance(samples)".split("(")[0])
    expect(page.locator("#welcome")).to_be_hidden()


def test_questions_beside_figures_open_the_legend_at_their_word(page: Page) -> None:
    ask(page, "hello")
    for question in page.locator("#figures .explain").all():
        word = question.get_attribute("data-word")
        question.click()
        marked = page.locator("#legend-list dd.explained")
        expect(marked).to_be_in_viewport()
        assert marked.evaluate("dd => dd.previousElementSibling.textContent") == word
        page.keyboard.press("Escape")
        expect(page.locator("#legend-dialog")).to_be_hidden()


def test_key_and_legend_say_what_is_coloured_now(page: Page) -> None:
    ask(page, "hello")
    key, legend = page.locator("#key"), page.locator("#legend-list")
    expect(key).to_have_text("acceptedcorrectionbonusplainrejected")
    page.click("#ghosts")
    expect(key).to_have_text("acceptedcorrectionbonusplain")
    page.click("[data-switch=colour] [data-value=drafter]")
    expect(key).to_have_text("SmolLM2 Draft 30Mn-gram lookuptarget")
    page.click("#open-legend")
    expect(legend).to_contain_text("who proposed each token")
    expect(legend).to_contain_text("Not shown now")
    expect(legend.locator(".token.accepted")).to_have_count(0)
    expect(legend.locator(".token.drafter-1")).to_have_text("n-gram lookup")
    page.keyboard.press("Escape")
    page.click("[data-switch=colour] [data-value=off]")
    expect(key).to_have_text("")
    page.click("#open-legend")
    expect(legend).to_contain_text("Colours are off")


def test_positions_are_of_one_height_and_one_try_is_no_rate(page: Page) -> None:
    ask(page, "hello")
    shown = page.evaluate(
        """async () => {
          const { Figures } = await import(new URL("forerun/chat/figures.js", document.baseURI));
          const root = document.querySelector("#figures");
          root.replaceChildren();
          const proposed = Array.from({ length: 12 }, (_, at) => (at < 10 ? 40 : 1));
          const accepted = proposed.map((_, at) => (at < 10 ? 20 : 0));
          const times = { draft_seconds: 1, target_seconds: 1, overhead_seconds: 1 };
          new Figures(root).show(
            { proposed_by_position: proposed, accepted_by_position: accepted, by_drafter: {},
              accepted: 0, proposed: 0, emitted: 1, rounds: 1, parked_rounds: 0,
              tokens_per_second: 1, mean_accepted_length: 1, ...times }, "");
          const bars = [...root.querySelectorAll(".position")];
          return { heights: bars.map((bar) => bar.querySelector("span").offsetHeight),
                   texts: bars.map((bar) => bar.querySelector("b").textContent),
                   weight: getComputedStyle(bars.at(-1).querySelector("b")).fontWeight };
        }"""
    )
    assert len(set(shown["heights"])) == 1
    assert shown["texts"][9:] == ["50%", "1 try", "1 try"] and shown["weight"] == "400"
    reload(page)  # another page's figures stand there


def test_torch_is_installed_from_the_train_dialog(page: Page, site: FakeSite) -> None:
    mark = Path(site.command[-2]) / "torch-is-missing"
    mark.write_text("waits")
    try:
        with answered(page, "train_options"):
            page.click("#open-train")
        part = page.locator(".torch-install")
        expect(page.locator(".train-form")).to_be_hidden()
        part.get_by_role("button", name="Install torch").click()
        expect(part).to_contain_text("26 MB of the 104 MB")
        part.get_by_role("button", name="Cancel").click()
        mark.write_text("fails")
        part.get_by_role("button", name="Install torch").click()
        expect(part).to_contain_text("the package index has no torch", ignore_case=True)
        mark.write_text("")
        part.get_by_role("button", name="Install torch").click()
        expect(page.locator(".train-form")).to_be_visible()
        expect(part).to_be_hidden()
    finally:
        mark.unlink(missing_ok=True)
