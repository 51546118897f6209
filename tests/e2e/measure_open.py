"""How long a chat of 500 replies takes to open: python -m tests.e2e.measure_open

Replies of 200 tokens with Markdown. Prints the seconds from choosing the chat until all its
messages are on the page, and the page's work until then. No test: it measures the machine as much
as the page.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from app.conversations import Conversations
from app.wire import WireEncoder, text_of
from tests.e2e.chromium import find_chromium
from tests.e2e.conftest import FLAGS
from tests.e2e.measure_lag import times
from tests.e2e.shared_page import load, new_page
from tests.e2e.sites import fake_site
from tests.fakes_engine import MARKDOWN, script

REPLIES, TOKENS = 500, 200


def fill(store: Conversations) -> int:
    conversation = store.create("long").id
    for number in range(REPLIES):
        store.add_user(conversation, f"question {number}")
        encoder = WireEncoder()
        rounds = script(MARKDOWN, TOKENS, seed=number)
        tokens = [token for trace in rounds for token in encoder.encode(trace)]
        details = {"drafters": encoder.drafters, "finish": "eos"}
        reply = store.start_reply(conversation)
        store.save_reply(reply, text_of(tokens), tokens, details, False)
    return conversation


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        store = Conversations(folder / "conversations.sqlite3")
        conversation = fill(store)
        store.close()
        site = fake_site(folder, 60)
        site.start()
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        page = load(new_page(chromium), site.url)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable")
        before, began = times(devtools), time.monotonic()
        page.evaluate(f"location.hash = '#chat-{conversation}'")
        last = f"document.querySelectorAll('#messages > *').length >= {2 * REPLIES}"
        page.wait_for_function(last, timeout=60_000)
        print(f"drawn after {time.monotonic() - began:.2f} s")
        spent = {name: after - before[name] for name, after in times(devtools).items()}
        print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in spent.items()))
        chromium.close()
        site.stop()


if __name__ == "__main__":
    main()
