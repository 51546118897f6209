"""One page of one site for many tests: opening it takes seconds, going back to its start does not.

Between tests the server puts its own data back, the page closes what is open and starts a new
chat. If it then looks in any way other than when it was first opened, it is loaded anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, ViewportSize
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.e2e.sites import FakeSite

SIZE: ViewportSize = {"width": 1440, "height": 900}
SETTLE_MS = 1000
PATIENCE_MS = 60_000

LEFT = ("AbortError: ", "Unexpected error Connection errored out.")
"""What gradio logs of the stream of a page that is being left."""

# All but the announcer, which holds the last reply for screen readers.
LOOK = """() => {
  const root = document.querySelector('.forerun');
  const parts = [...root.children].filter((part) => part.id !== 'announcer');
  const text = parts.filter((part) => part.getClientRects().length).map((part) => part.innerText);
  const fields = [...root.querySelectorAll('input, textarea, select')];
  const values = fields.map((field) => field.type === 'checkbox' ? field.checked : field.value);
  const pressed = [...root.querySelectorAll('[aria-checked]')].map((one) => one.ariaChecked);
  const size = [innerWidth, innerHeight];
  return JSON.stringify([text, values, pressed, root.dataset, location.hash, size]);
}"""
LOOKS_LIKE = f"(look) => ({LOOK})() === look"

GO_BACK = """() => {
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close();
  for (const box of document.querySelectorAll('#conversation-search, #message-box')) {
    if (!box.value) continue;
    box.value = '';
    box.dispatchEvent(new Event('input'));
  }
  getSelection().removeAllRanges();
  document.activeElement.blur();
  document.querySelector('#new-chat').click();
}"""


@dataclass
class Watch:
    """What a page must not do: log errors, ask other hosts."""

    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def clear(self) -> None:
        self.errors.clear()
        self.foreign.clear()


def attach(page: Page, watch: Watch, url: str) -> None:
    own = urlsplit(url).netloc

    def requested(address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("data", "blob") and parts.netloc != own:
            watch.foreign.append(address)

    def entered(_page: Page) -> None:
        watch.errors[:] = [text for text in watch.errors if not text.startswith(LEFT)]

    page.on("domcontentloaded", entered)
    page.on("console", lambda m: watch.errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: watch.errors.append(str(error)))
    page.on("request", lambda request: requested(request.url))


def new_page(browser: Browser) -> Page:
    """Of a browser context of its own. Later pages of that context find its cache filled."""
    context = browser.new_context(viewport=SIZE)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


def load(page: Page, url: str, load_timeout: float = PATIENCE_MS) -> Page:
    """Wait until it is drawn and a model is loaded."""
    page.goto(url)
    page.wait_for_selector(".forerun[data-ready]")
    page.wait_for_selector(".engine-status.ready", timeout=load_timeout)
    return page


class SharedPage:
    """watch: of the time since the last `start_over`."""

    def __init__(self, browser: Browser, site: FakeSite) -> None:
        self.watch = Watch()
        self._site = site
        self._page = new_page(browser)
        attach(self._page, self.watch, site.url)
        self._loaded_from = 0
        self._first_look = ""

    def start_over(self) -> Page:
        self.watch.clear()
        if self._site.process is None:
            self._page.goto("about:blank")  # a page that is open loads itself again by then
            self._site.start()
        self._site.reset()
        page = self._page
        page.set_viewport_size(SIZE)
        page.mouse.move(0, 0)
        if self._loaded_from != self._site.starts or not self._goes_back():
            self._load()
        return page

    def close(self) -> None:
        self._page.context.close()

    def _goes_back(self) -> bool:
        self._page.evaluate(GO_BACK)
        try:
            self._page.wait_for_function(LOOKS_LIKE, arg=self._first_look, timeout=SETTLE_MS)
        except PlaywrightTimeoutError:
            return False
        return True

    def _load(self) -> None:
        load(self._page, self._site.url)
        drawn = "document.querySelector('#drafter-box .box-value').textContent === 'n-gram lookup'"
        self._page.wait_for_function(drawn)
        self._page.wait_for_selector("#context-meter")
        if not self._first_look:
            self._first_look = self._page.evaluate(LOOK)
        self._page.wait_for_function(LOOKS_LIKE, arg=self._first_look)
        self._loaded_from = self._site.starts
