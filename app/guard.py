"""Who may talk to the server: this machine's own pages, nobody else's.

Checks the Host header (a foreign name resolved to this address) and where a request comes from (a
foreign page), opens the routes that the page uses and no others, says that nobody else may read an
answer, and sends the content security policy.
"""

from __future__ import annotations

import re
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
# gradio serves many more: files, addresses from outside, recordings, calls of any function.
OPEN = re.compile(
    r"/|/health|/theme\.css|/config|/favicon\.ico|/robots\.txt|/(?:forerun|assets|static|svelte)/.+"
    r"|/chats/(?:import|export)|/presets/import"
    r"|/gradio_api/(?:startup-events|queue/(?:join|data)|component_server|heartbeat/[\w-]+"
    r"|reset|cancel|info|app_id)"
)
OWN_SITES = ("same-origin", "none")


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
                # gradio allows every page of this machine to read its answers.
                for name in [name for name in headers if name.startswith("access-control-")]:
                    del headers[name]
                headers["content-security-policy"] = POLICY
                headers["cross-origin-resource-policy"] = "same-origin"
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
        if origin and origin.partition("//")[2] != host:
            return "requests from other origins are refused"
        # Browsers tell of every request, of those without an origin too. A link may lead here.
        site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
        if site and site not in OWN_SITES and not (mode == "navigate" and scope["method"] == "GET"):
            return "requests from other sites are refused"
        if not OPEN.fullmatch(scope["path"].rstrip("/") or "/"):
            return "this route is closed"
        return None


def _name_of(host: str) -> str:
    """The host without its port; [::1]:7860 keeps its brackets."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
