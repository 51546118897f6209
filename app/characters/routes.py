"""The route for a character card's file.

POST /presets/import?session=S&name=N    the body is the file -> the preset it became, or {"error"}
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from app.characters.card_file import LARGEST_FILE
from app.exchange.routes import answered, lost
from engine.data.documents import sound
from engine.data.shown import shown

IMPORT_CARD = "/presets/import"
_LONGEST_NAME = 200


def add_card_route(
    app: FastAPI, take: Callable[[bytes, str], dict[str, Any]], is_open: Callable[[str], bool]
) -> None:
    """take: makes a preset of a file's bytes. is_open: whether a page has the session."""

    async def receive(request: Request) -> Response:
        if not is_open(request.query_params.get("session", "")):
            return lost()
        name = shown(sound(request.query_params.get("name", ""))[:_LONGEST_NAME]) or "the file"
        content = bytearray()
        try:
            async for chunk in request.stream():
                content += chunk
                if len(content) > LARGEST_FILE:
                    break  # one byte too many is enough to be refused
        except ClientDisconnect:
            return Response(status_code=400)
        made = lambda: JSONResponse(take(bytes(content), name))  # noqa: E731
        return await asyncio.to_thread(answered, made)

    app.add_route(IMPORT_CARD, receive, methods=["POST"])
