"""The page: one gr.HTML that our own script draws into, and the stream that feeds it.

Model and user text never enter a template: the component's value is JSON, and the script
builds every element itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.responses import JSONResponse

from app.handlers import Handlers, Services

ASSETS = Path(__file__).resolve().parent.parent / "assets"
ASSETS_ROUTE = "/forerun"
SERVED = ("hello", "resync", "call")
"""Functions that the page's script calls by name."""

# The event name must stand quoted in the script for gradio to know it: 'follow'.
ON_LOAD = """
const follow = (detail) => trigger('follow', detail);
const page = import(new URL('forerun/main.js', document.baseURI).href);
page.then(({ mount }) => mount({ element, server, follow,
  value: () => props.value, onValue: (callback) => watch('value', callback) }));
"""

# Later sheets overrule earlier ones: narrow pages rearrange what the others have laid out.
STYLES = (
    "base", "sidebar", "modelbar", "viewbar", "transcript", "markdown", "tokens", "composer",
    "figures", "dialogs", "training", "rendering", "firstminute", "folders", "chatsettings",
    "narrow", "head", "lab", "exchange", "versions", "scripts", "drafting", "access",
    "contextmeter", "attachments", "replay", "continuing",
)  # fmt: skip

HEAD = f"""
<meta name="color-scheme" content="light dark">
<link rel="icon" href="forerun/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="forerun/vendor/katex/katex.min.css">
{"".join(f'<link rel="stylesheet" href="forerun/css/{name}.css">' for name in STYLES)}
<link rel="modulepreload" href="forerun/main.js">
"""


def build_page(services: Services) -> gr.Blocks:
    handlers = Handlers(services)
    session_of_page: dict[str, str] = {}

    async def follow(event: gr.EventData, request: gr.Request) -> AsyncIterator[str]:
        wanted = handlers.followed(event._data)
        if wanted is None:
            return
        session, after = wanted
        session.touch()
        session_of_page[str(request.session_hash)] = session.id
        async for envelope in session.envelopes(after):
            yield envelope

    def leave(request: gr.Request) -> None:
        session_id = session_of_page.pop(str(request.session_hash), "")
        session = services.sessions.get(session_id)
        if session is not None:
            services.departures.leaves(session)

    # gradio marks the functions it serves, which bound methods do not allow. Answers are encoded
    # here: a server that is handed a table copies it value by value, seconds for a long chat.
    def hello(payload: Any) -> JSONResponse:
        return JSONResponse(handlers.hello(payload))

    def resync(payload: Any) -> JSONResponse:
        return JSONResponse(handlers.resync(payload))

    def call(payload: Any) -> JSONResponse:
        return JSONResponse(handlers.call(payload))

    with gr.Blocks(title="Forerun", analytics_enabled=False, fill_width=True) as page:
        shell = _shell([hello, resync, call])
        shell.follow(
            follow,
            None,
            shell,
            show_progress="hidden",
            concurrency_limit=None,
            api_visibility="private",
        )
        page.unload(leave)
    return page


def _shell(server_functions: list[Callable[[Any], Any]]) -> gr.HTML:
    return gr.HTML(
        "",
        html_template=(ASSETS / "shell.html").read_text(encoding="utf-8"),
        js_on_load=ON_LOAD,
        server_functions=server_functions,
        apply_default_css=False,
        elem_id="forerun",
    )
