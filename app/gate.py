"""What may be posted to the server, and in what form: the little of gradio that the page uses.

A body that no page sends ends here with a JSON error that says why. It would otherwise reach code
that expects its own client: a number of 2^63 or a list for a name is a KeyError there, and a 500.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.requests import BadRequestError, Check, Optional, one_of, parsed_table, whole, word

READING = ("GET", "HEAD", "OPTIONS")
LARGEST_BODY = 16_000_000
_LONGEST_PATH = 250

_SERVER_CALL = "/gradio_api/component_server"
_JOIN = "/gradio_api/queue/join"
_CANCEL, _RESET = "/gradio_api/cancel", "/gradio_api/reset"


class Gate:
    """ASGI middleware. component, events: the ids of the page's one component and its events.
    functions: names of what the component serves. uploads: routes that read files themselves."""

    def __init__(
        self,
        app: ASGIApp,
        component: int,
        events: Collection[int],
        functions: Collection[str],
        uploads: Collection[str] = (),
    ) -> None:
        self._app = app
        self._uploads = frozenset(uploads)
        self._bodies: dict[str, dict[str, Check]] = {
            _SERVER_CALL: {
                "session_hash": word,
                "component_id": _number_of({component}),
                "fn_name": one_of(*functions),
                "data": _anything,
            },
            _JOIN: {
                "session_hash": word,
                "fn_index": _number_of(events),
                "data": _list,
                "event_data": Optional(_anything),
                "trigger_id": Optional(whole),
            },
            _CANCEL: {"session_hash": word, "fn_index": whole, "event_id": word},
            _RESET: {"event_id": word},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if len(scope["path"]) > _LONGEST_PATH:  # no file system has a name for it
            await JSONResponse({"error": "there is nothing here"}, 404)(scope, receive, send)
            return
        is_upload = scope["method"] == "POST" and scope["path"] in self._uploads
        if scope["method"] in READING or is_upload:
            await self._app(scope, receive, send)
            return
        known = self._bodies.get(scope["path"].rstrip("/"))
        if scope["method"] != "POST" or known is None:
            await JSONResponse({"error": "nothing can be sent here"}, 404)(scope, receive, send)
            return
        try:
            body = _checked(await _read(receive), known)
        except BadRequestError as error:
            await JSONResponse({"error": str(error)}, 400)(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0] not in _REPLACED]
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self._app({**scope, "headers": headers}, _Replay(body, receive), send)


_REPLACED = (b"content-type", b"content-length", b"transfer-encoding")


class _Replay:
    """The body in one piece, then what the connection has to say."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BadRequestError("the request was not complete")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise BadRequestError(f"a request may have {LARGEST_BODY:,} bytes")
        if not message.get("more_body", False):
            return b"".join(parts)


def _checked(body: bytes, known: Mapping[str, Check]) -> bytes:
    """The body as it goes on: whole characters, known fields, nothing else."""
    content = parsed_table(body)
    fields = {name: check(name, content.get(name)) for name, check in known.items()}
    return json.dumps(fields, separators=(",", ":")).encode()


def _number_of(known: Collection[int]) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        if whole(name, value) not in known:
            raise BadRequestError(f"{name} is not one of this page")
        return int(value)

    return check


def _anything(name: str, value: Any) -> Any:
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadRequestError(f"{name} must be a list")
    return value
