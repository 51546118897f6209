"""Who may talk to the server: this machine's own pages, nobody else's.

Checks the Host header (a foreign name resolved to this address), the Origin of writing requests
(a foreign page), closes gradio's routes that fetch addresses from outside or write
to disk, and sends the content security policy.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# gradio's HTML component compiles templates: it needs eval.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self'; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
READING = ("GET", "HEAD", "OPTIONS")
CLOSED = ("/file=http", "/deep_link", "/gradio_api/upload", "/proxy=", "/openapi.json")


class Guard:
    """ASGI middleware. hosts: names the page may be opened by; empty allows every name."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await JSONResponse({"error": refusal}, 403)(scope, receive, send)
            return

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = POLICY
                headers["x-content-type-options"] = "nosniff"
                headers["referrer-policy"] = "no-referrer"
            await send(message)

        await self._app(scope, receive, send_with_policy)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts and _name_of(host).lower() not in self._hosts:
            return "this host name is not served here"
        origin = headers.get("origin")
        if scope["method"] not in READING and origin and origin.partition("//")[2] != host:
            return "requests from other origins are refused"
        path = scope["path"].lower()
        if any(part in path for part in CLOSED):
            return "this route is closed"
        return None


def _name_of(host: str) -> str:
    """The host without its port; [::1]:7860 keeps its brackets."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
