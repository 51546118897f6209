"""Files that go with a message, on the page."""

from __future__ import annotations

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.e2e.steps import ask, reload

pytestmark = pytest.mark.browser

DROP = """name => {
  const data = new DataTransfer();
  data.items.add(new File(['dropped text'], name));
  const told = { dataTransfer: data, bubbles: true, cancelable: true };
  return document.querySelector('#figures').dispatchEvent(new DragEvent('drop', told));
}"""


def test_files_are_chosen_dropped_removed_and_sent(page: Page) -> None:
    chips = page.locator("#attachments .chip")
    note: FilePayload = {
        "name": "notes.txt",
        "mimeType": "text/plain",
        "buffer": b"the sky is green",
    }
    page.set_input_files("#attach-input", note)
    expect(chips).to_contain_text(["notes.txt"])
    expect(page.locator("#context-meter")).not_to_contain_text("0 of")
    assert page.evaluate(DROP, "dropped.md") is False  # the browser does nothing of its own
    expect(chips).to_have_count(2)
    chips.nth(1).get_by_role("button", name="Remove dropped.md").click()
    picture: FilePayload = {"name": "cat.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n"}
    page.set_input_files("#attach-input", picture)
    expect(chips.nth(1)).to_contain_text("cat.png is an image: images cannot be read yet")
    expect(chips.nth(0)).to_contain_text("1 kB")
    ask(page, "hello")
    expect(chips).to_have_count(0)
    sent = page.locator(".message.user .chip")
    expect(sent).to_have_text(["notes.txt1 kB"])
    reload(page)
    expect(sent).to_have_text(["notes.txt1 kB"])
