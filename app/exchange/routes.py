"""Routes for files, which are too large for the page's other requests.

POST /chats/import?session=S&name=N    the body is the file -> the summary, or {"error"}
GET  /chats/export?session=S[&chat=ID]&format=F    a download

The session, which only an open page knows, keeps others from leading a browser here.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import tempfile
from collections.abc import Callable
from typing import IO, Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from app.chat_file import advice
from app.exchange.exporting import FORMATS, ExportFormat, media_type
from app.exchange.service import Exchange
from app.exchange.source import LARGEST_FILE
from engine.data.documents import sound
from engine.data.errors import BadOptionError, EngineError
from engine.data.shown import shown

IMPORT, EXPORT = "/chats/import", "/chats/export"
_IN_MEMORY = 4_000_000
_LONGEST_NAME = 200
_log = logging.getLogger(__name__)


def add_routes(app: FastAPI, exchange: Exchange, is_open: Callable[[str], bool]) -> None:
    """is_open: whether a page has the session of this name."""

    async def take(request: Request) -> Response:
        if not is_open(request.query_params.get("session", "")):
            return lost()
        name = sound(request.query_params.get("name", ""))[:_LONGEST_NAME] or "the file"
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            try:
                await _receive(request, file)
            except ClientDisconnect:
                return Response(status_code=400)
            except BadOptionError as error:
                return refused(error)
            return await asyncio.to_thread(answered, lambda: _taken(exchange, file, name))

    async def give(request: Request) -> Response:
        if not is_open(request.query_params.get("session", "")):
            return lost()
        asked = dict(request.query_params)
        return await asyncio.to_thread(answered, lambda: _given(exchange, asked))

    app.add_route(IMPORT, take, methods=["POST"])
    app.add_route(EXPORT, give, methods=["GET"])


async def _receive(request: Request, file: IO[bytes]) -> None:
    """The limit holds while reading: nothing is believed of how long it will be."""
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > LARGEST_FILE:
            raise BadOptionError(
                f"the file has more than {LARGEST_FILE:,} bytes: use `forerun chats import` for a"
                " zip, or export fewer chats at a time"
            )
        await asyncio.to_thread(file.write, chunk)
    file.seek(0)


def answered(answer: Callable[[], Response]) -> Response:
    try:
        return answer()
    except EngineError as error:
        return refused(error)
    except sqlite3.Error as error:
        _log.exception("the conversation file failed")
        message = f"Chats cannot be read or written: {error} ({advice(error)})."
        return JSONResponse({"error": shown(message)}, 500)
    except OSError as error:
        _log.exception("a file could not be kept")
        reason = shown(f"The file cannot be kept: {error.strerror or error}.")
        return JSONResponse({"error": reason}, 500)


def _taken(exchange: Exchange, file: IO[bytes], name: str) -> Response:
    return JSONResponse(exchange.take(file, name))


def _given(exchange: Exchange, asked: dict[str, Any]) -> Response:
    form = _form(asked.get("format", ""))
    name, text = exchange.give(_number(asked.get("chat")), form)
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "cache-control": "no-store",
    }
    return StreamingResponse(text, media_type=media_type(form), headers=headers)


def _form(asked: str) -> ExportFormat:
    found = next((form for form in FORMATS if form == asked), None)
    if found is None:
        raise BadOptionError(f"format must be one of {', '.join(FORMATS)}")
    return found


def _number(asked: str | None) -> int | None:
    if asked is None:
        return None
    if not (asked.isascii() and asked.isdigit() and len(asked) < 19):
        raise BadOptionError("chat must be the number of one")
    return int(asked)


def lost() -> Response:
    return JSONResponse({"error": "The page has lost its session: reload it."}, 403)


def refused(error: EngineError) -> Response:
    return JSONResponse({"error": str(error)}, 400)
