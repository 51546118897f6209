"""What a user does, in one line each."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager

from playwright.sync_api import Locator, Page

from tests.e2e.sites import Site


def send(page: Page, text: str) -> None:
    page.fill("#message-box", text)
    page.press("#message-box", "Enter")


def reply(page: Page, number: int = -1) -> Locator:
    return page.locator(".message.reply").nth(number)


def finished(page: Page, count: int = 1) -> Locator:
    """Wait until there are `count` complete replies; the last of them."""
    page.wait_for_function(  # looks at every frame, which `expect` does not
        "count => document.querySelectorAll('.reply-footer .message-buttons').length === count",
        arg=count,
    )
    return reply(page)


def reload(page: Page) -> None:
    page.reload()
    page.wait_for_selector(".forerun[data-ready]")


def power_cut(page: Page, site: Site) -> None:
    """Browser and server go at once, and come back.

    A page that were left open would load itself again when the server answers, in the middle of
    whatever the test does then.
    """
    page.goto("about:blank")
    site.kill()
    site.start()
    page.goto(site.url)
    page.wait_for_selector(".forerun[data-ready]")


def ask(page: Page, text: str, count: int = 1) -> Locator:
    send(page, text)
    return finished(page, count)


def menu(page: Page, message: Locator, item: str) -> None:
    """Choose something behind the button More of a message."""
    message.hover()
    message.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name=item).click()


def text_of(part: Locator) -> str:
    text: str = part.locator(".reply-body").evaluate("body => body.textContent")
    return text


def stop_after(page: Page, tokens: int) -> None:
    """Press Esc when the last reply shows this many tokens."""
    page.wait_for_function(
        "count => [...document.querySelectorAll('.message.reply')].at(-1)"
        "?.querySelectorAll('.reply-body .token').length >= count",
        arg=tokens,
    )
    page.keyboard.press("Escape")


def token_count(part: Locator) -> int:
    figures = part.locator(".reply-figures").inner_text()
    found = re.search(r"([\d,]+) tokens\b", figures)
    assert found, figures
    return int(found[1].replace(",", ""))


def choose(page: Page, box: str, value: str) -> None:
    """A row of one of the model dropdowns, which stays open if it takes several."""
    if not page.locator(f"{box} .box-popup").is_visible():
        page.click(f"{box} .box-button")
    page.click(f"{box} [role=option][data-value='{value}']")


def answered(page: Page, action: str) -> AbstractContextManager[object]:
    """Wait until the server has answered this action of the page."""
    return page.expect_response(
        lambda response: f'"action":"{action}"' in (response.request.post_data or "")
    )


def setting(page: Page, name: str, value: str) -> None:
    """Change one setting and wait until the server has it."""
    page.click("#open-settings")
    field = page.locator(f"#setting-{name}")
    if field.input_value() != value:
        with answered(page, "settings"):
            if field.evaluate("element => element.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
                field.blur()
    page.keyboard.press("Escape")
