"""How far the page is behind the engine: python -m tests.e2e.measure_lag [code]

A reply of 2,000 tokens with formulas, tables and code at 60 a second, in a chat with 20 earlier
replies of 600 tokens, a fifth of each a thought; with "code", one block of code of 6,000 tokens at
200 a second. Prints how long after the engine's last
event the page shows the reply as finished, and how long frames took. No test: it measures the
machine as much as the page.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import CDPSession, sync_playwright

from app.conversations import Conversations
from app.wire import WireEncoder, text_of
from tests.e2e.chromium import find_chromium
from tests.e2e.conftest import FLAGS
from tests.e2e.shared_page import load, new_page
from tests.e2e.sites import fake_site
from tests.e2e.steps import send
from tests.fakes_engine import MARKDOWN, script
from tests.rendering_replies import RENDERING

EARLIER, EARLIER_TOKENS = 20, 600
TEXT, CODE = ("rendering, {} tokens", 2000, 60), ("a program of {} tokens", 6000, 200)
WATCH = """() => {
  window.gaps = []; let last = performance.now();
  const frame = (now) => { gaps.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  window.first = window.end = null;
  setInterval(() => {
    const reply = document.querySelector('#messages').lastElementChild;
    const started = reply?.querySelector('.token'), now = performance.now();
    if (reply?.classList.contains('streaming') && started) window.first ??= now;
    if (window.first && !reply.classList.contains('streaming')) window.end ??= now;
  }, 10);
}"""


def fill(store: Conversations) -> int:
    conversation = store.create("earlier").id
    for number in range(EARLIER):
        store.add_user(conversation, f"question {number}")
        encoder = WireEncoder()
        rounds = script(RENDERING if number % 2 else MARKDOWN, EARLIER_TOKENS, seed=number)
        tokens = [token for trace in rounds for token in encoder.encode(trace)]
        thought = {"from": 0, "to": EARLIER_TOKENS // 5, "seconds": 2.0}
        details = {"drafters": encoder.drafters, "finish": "eos", "reasoning": thought}
        reply = store.start_reply(conversation)
        store.save_reply(reply, text_of(tokens), tokens, details, False)
    return conversation


def times(devtools: CDPSession) -> dict[str, float]:
    """Seconds that the page's main thread has worked, which a busy machine changes little."""
    found = {
        one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]
    }
    names = {"Task": "all work", "Script": "scripts", "Layout": "layout", "RecalcStyle": "styles"}
    return {shown: float(found[f"{name}Duration"]) for name, shown in names.items()}


def main() -> None:
    question, tokens, pace = CODE if sys.argv[1:] == ["code"] else TEXT
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        store = Conversations(folder / "conversations.sqlite3")
        conversation = fill(store)
        store.close()
        site = fake_site(folder, pace)
        site.start()
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        page = load(new_page(chromium), f"{site.url}#chat-{conversation}")
        page.evaluate(WATCH)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable")
        before = times(devtools)
        send(page, question.format(tokens))
        page.wait_for_function("window.end", timeout=180_000)
        first, end, gaps = page.evaluate("[first, end, gaps.sort((a, b) => a - b)]")
        # The engine's first round is at most six tokens: a tenth of a second of its pace.
        behind = (end - first) / 1000 - (tokens - 6) / pace
        print(f"behind at the end: {behind:.2f} s (drift since the first round drawn)")
        print(f"99% of the frame gaps are below {gaps[int(0.99 * len(gaps))]:.0f} ms")
        print(
            f"the longest is {gaps[-1]:.0f} ms; {sum(gap > 250 for gap in gaps)} are above 250 ms"
        )
        spent = {name: after - before[name] for name, after in times(devtools).items()}
        print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in spent.items()))
        chromium.close()
        site.stop()


if __name__ == "__main__":
    main()
