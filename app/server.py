"""The web server: gradio's page, our script files and /health on one port."""

from __future__ import annotations

import os
from typing import Any

# Before gradio is imported: it reads these once.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import gradio as gr
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.responses import Response

from app.characters.routes import IMPORT_CARD, add_card_route
from app.exchange.routes import IMPORT, add_routes
from app.gate import Gate
from app.guard import Guard
from app.handlers import Services
from app.page import ASSETS, ASSETS_ROUTE, HEAD, SERVED, build_page

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


class ScriptFiles(StaticFiles):
    """Our script files; always revalidated, so that an update is seen at the next reload."""

    async def get_response(self, path: str, scope: Any) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


def create_app(services: Services, host: str = "127.0.0.1") -> FastAPI:
    """host: the address it will listen on; only loopback ones get the host-name check."""
    app = FastAPI(title="Forerun", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/health")
    def health() -> dict[str, Any]:
        state = services.loading.state()
        loaded = state["loaded"]
        return {
            "status": "loading" if state["progress"] else "ok",
            "target": loaded["target"]["id"] if loaded else None,
            "drafters": [drafter["name"] for drafter in loaded["drafters"]] if loaded else [],
        }

    def is_open(name: str) -> bool:
        return services.sessions.get(name) is not None

    add_routes(app, services.exchange, is_open)
    add_card_route(app, services.presets.take, is_open)
    app.mount(ASSETS_ROUTE, ScriptFiles(directory=ASSETS), name="script files")
    page = build_page(services)
    page.queue(default_concurrency_limit=8, max_size=None)
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        footer_links=[],
        run_history=False,
        show_error=False,
        max_file_size=0,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        theme=gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["monospace"]),
        head=HEAD,
    )
    shell = next(block for block in page.blocks.values() if isinstance(block, gr.HTML))
    app.add_middleware(
        Gate,
        component=shell._id,
        events=tuple(page.fns),
        functions=SERVED,
        uploads=(IMPORT, IMPORT_CARD),
    )
    app.add_middleware(Guard, hosts=(*LOOPBACK_NAMES, host) if is_loopback(host) else ())
    return app


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
