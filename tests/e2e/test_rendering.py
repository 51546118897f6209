"""Formulas, colours of code, task lists, directions and tables in chromium."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.steps import ask, finished, send
from tests.rendering_replies import HOSTILE_FORMULAS, RENDERING

pytestmark = pytest.mark.browser

COLOURS = """() => [...document.querySelectorAll('.token [class^=hljs]')].map(one => {
  const parts = (colour) => colour.match(/[\\d.]+/g).slice(0, 3)
    .map(part => part * (colour.startsWith('color(') ? 255 : 1));
  const light = (colour) => parts(colour).map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  let back = one;
  while (/, 0\\)$/.test(getComputedStyle(back).backgroundColor)) back = back.parentElement;
  const [ink, paper] = [getComputedStyle(one).color, getComputedStyle(back).backgroundColor];
  const [low, high] = [light(ink), light(paper)].sort((a, b) => a - b);
  return [one.className, back.className, (high + 0.05) / (low + 0.05)];
})"""


def coloured(page: Page) -> None:
    page.wait_for_function("document.querySelectorAll('.hljs-keyword').length > 1")


def test_formulas_are_typeset_from_their_own_fonts(page: Page) -> None:
    part = ask(page, "rendering please")
    expect(part.locator(".formula")).to_have_count(6)
    expect(part.locator(".formula.display")).to_have_count(2)
    expect(part.locator(".formula.failed")).to_have_count(0)
    box, shown = (
        part.locator(f".formula.display{inner}").first.bounding_box() for inner in ("", " .katex")
    )
    assert box and shown and box["height"] < shown["height"] + 30, "no room for hidden lines"
    page.wait_for_function(
        "document.fonts.ready.then(() => document.fonts.check('16px KaTeX_Main'))"
    )
    assert page.evaluate("document.compatMode") == "CSS1Compat"
    assert "$5 or $6" in part.locator("p").first.inner_text()


def test_a_formula_is_one_piece_and_a_click_shows_its_tokens(page: Page) -> None:
    part = ask(page, "rendering please")
    formula = part.locator(".formula").first
    first, last = (int(formula.get_attribute(name) or -1) for name in ("data-from", "data-to"))
    assert 0 < first < last
    summary = rf"\d+ of {last - first + 1} tokens accepted from drafts, least p 0\.\d+"
    assert re.match(summary, formula.get_attribute("title") or "")
    box = formula.locator(".formula-source").bounding_box()
    assert box is not None and box["width"] < 1
    formula.locator(".formula-shown").click()
    box = formula.locator(".formula-source").bounding_box()
    assert box is not None and box["width"] > 50
    assert formula.locator(".formula-source").inner_text() == r"$e^{i\pi} + 1 = 0$"
    backgrounds = formula.locator(".token").evaluate_all(
        "all => new Set(all.map(one => getComputedStyle(one).backgroundColor)).size"
    )
    assert backgrounds > 1
    formula.press("Enter")
    box = formula.locator(".formula-source").bounding_box()
    assert box is not None and box["width"] < 1


def test_a_selection_copies_the_source(page: Page) -> None:
    part = ask(page, "rendering please")
    coloured(page)
    part.locator(".reply-body").evaluate(
        "body => getSelection().selectAllChildren(body.querySelector('.block'))"
    )
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()") == RENDERING.partition("\n")[0]
    part.locator(".reply-body").evaluate("body => getSelection().selectAllChildren(body)")
    page.keyboard.press("Control+c")
    copied = page.evaluate("navigator.clipboard.readText()")
    for source in (
        "\n$$\n\\int_0^1 x^2 \\, dx = \\frac{1}{3}\n$$\n",
        "\\begin{align}\na &= b + c \\\\\nd &= e * f\n\\end{align}",
        "    # the whole disc\n    return 3.14 * radius",
        "with formulas $x_1$",
        "$\\frac{a}{b}$",
    ):
        assert source in copied, copied
    assert page.locator(".copied-part").count() == 0
    part.get_by_role("button", name="Copy", exact=True).last.click()
    assert page.evaluate("navigator.clipboard.readText()") == RENDERING


def test_code_is_coloured_and_keeps_its_tokens(page: Page) -> None:
    part = ask(page, "rendering please")
    before = part.locator("pre").evaluate_all("all => all.map(one => one.textContent)")
    coloured(page)
    assert part.locator("pre").evaluate_all("all => all.map(one => one.textContent)") == before
    code = part.locator("pre code").first
    assert code.locator(".hljs-keyword").all_inner_texts() == ["def", "return"]
    outside = "all => all.filter(one => !one.closest('.token')).length"
    assert code.locator("[class^=hljs]").evaluate_all(outside) == 0
    backgrounds = code.locator(".token").evaluate_all(
        "all => new Set(all.map(one => getComputedStyle(one).backgroundColor)).size"
    )
    assert backgrounds > 1
    ghosts = part.locator("pre .ghost").evaluate_all(
        "all => all.filter(one => one.getClientRects().length).length"
    )
    assert ghosts == 0


def test_colours_of_code_can_be_read_on_every_outcome_in_both_themes(page: Page) -> None:
    ask(page, "rendering please")
    coloured(page)
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        for colour in ("outcome", "drafter", "off"):
            page.click(f"[data-switch=colour] [data-value={colour}]")
            weak = [found for found in page.evaluate(COLOURS) if found[2] < 4.5]
            assert not weak, (theme, colour, weak)
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    page.click("[data-switch=colour] [data-value=outcome]")


def test_a_formula_is_source_until_it_is_closed_and_then_stays(page: Page) -> None:
    page.evaluate(
        """() => {
          window.seen = new Set(); window.broken = 0; window.escaped = 0;
          new MutationObserver(() => {
            const all = document.querySelectorAll('.reply-body .formula');
            for (const one of all) {
              seen.add(one);
              if (one.classList.contains('failed')) broken += 1;
            }
            const text = document.querySelector('.reply-body .formula-open')?.textContent ?? '';
            if (text.startsWith('begin')) escaped += 1;
          }).observe(document.querySelector('#messages'), { childList: true, subtree: true });
        }"""
    )
    send(page, "rendering slowly please")
    part = finished(page)
    expect(part.locator(".formula")).to_have_count(6)
    assert page.evaluate("[seen.size, broken, escaped]") == [6, 0, 0]


def test_task_lists_show_their_state(page: Page) -> None:
    part = ask(page, "rendering please")
    boxes = part.get_by_role("checkbox")
    assert boxes.evaluate_all(
        "all => all.map(one => [one.checked, one.disabled, one.ariaLabel])"
    ) == [
        [True, True, "done"],
        [False, True, "not done"],
        [True, True, "done"],
    ]
    fills = boxes.evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    assert fills[0] == fills[2] != fills[1]


def test_paragraphs_and_lists_run_in_their_own_direction(page: Page) -> None:
    part = ask(page, "rendering please")
    directions = "all => all.map(one => getComputedStyle(one).direction)"
    assert set(part.locator("blockquote p").evaluate_all(directions)) == {"rtl"}
    assert part.locator("li").evaluate_all(directions) == ["ltr"] * 3 + ["rtl"] * 2
    assert part.locator("p", has_text="code").first.evaluate_all(directions) == ["rtl"]
    assert set(part.locator("pre").evaluate_all(directions)) == {"ltr"}
    ask(page, "שלום hello", 2)
    assert (
        page.locator(".user-text").last.evaluate("one => getComputedStyle(one).direction") == "rtl"
    )


def test_wide_tables_and_formulas_scroll_on_phones(page: Page) -> None:
    page.set_viewport_size({"width": 380, "height": 800})
    part = ask(page, "rendering please")
    table = part.locator(".table-frame")
    assert table.evaluate("one => one.scrollWidth > one.clientWidth + 50")
    assert table.evaluate("one => { one.scrollLeft = 9999; return one.scrollLeft > 0 }")
    assert page.evaluate("document.documentElement.scrollWidth") == 380
    assert part.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_hostile_formulas_and_labels_stay_harmless(page: Page) -> None:
    part = ask(page, "odd formulas")
    body = part.locator(".reply-body")
    expect(body.locator(".formula")).to_have_count(len(HOSTILE_FORMULAS) + 1)
    expect(body.locator(".hljs-tag").first).to_be_attached()
    assert (
        body.locator("img, script, iframe, a, object, embed, form, image, foreignObject").count()
        == 0
    )
    assert body.locator("[id], [href], [src], [onclick], [onload], [onerror]").count() == 0
    assert body.locator("[data-evil], .offline").count() == 0
    addresses = "all => all.filter(one => /url|javascript|fixed/.test(one.getAttribute('style')))"
    assert body.locator("[style]").evaluate_all(f"{addresses}.length") == 0
    assert page.evaluate("window.pwned") is None
    outside = body.locator(".formula").evaluate_all(
        "all => all.filter(one => getComputedStyle(one).overflow === 'visible').length"
    )
    assert outside == 0
    assert page.evaluate("document.documentElement.scrollWidth === innerWidth")
    last = body.locator(".formula").last
    assert last.locator(".mfrac").count() == 1
