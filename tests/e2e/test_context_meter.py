"""How full the context is, beside the message box."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.steps import ask, reload, setting
from tests.fakes_engine import CONTEXT

pytestmark = pytest.mark.browser


def test_meter_counts_what_is_typed_and_says_what_goes(page: Page) -> None:
    meter = page.locator("#context-meter")
    expect(meter).to_contain_text(f"0 of {CONTEXT:,}")
    page.fill("#message-box", "one two three")
    expect(meter).to_contain_text(f"3 of {CONTEXT:,}")
    expect(meter).to_have_attribute(
        "title",
        f"Your message: 3 tokens. With it the chat takes 3 tokens of the model's {CONTEXT:,}.",
    )
    ask(page, "hello")
    ask(page, "hello", count=2)
    reload(page)
    expect(meter.locator(".meter-figure")).not_to_contain_text("0 of")
    page.fill("#message-box", "word " * (CONTEXT - 10))
    expect(meter).to_contain_text("oldest messages will be left out")
    setting(page, "overflow", "refuse")
    expect(meter).to_contain_text("Cannot be sent: the prompt has")
    page.fill("#message-box", "x" * 1_900_000)  # of a few tokens to the scripted engine
    expect(meter).not_to_contain_text("Cannot be sent")
    page.click("#new-chat")
    expect(meter).to_contain_text(f"0 of {CONTEXT:,}")
