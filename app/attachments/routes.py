"""POST /files/read?session=S&name=N: the body is the file -> what it is, or {"error"}.

The session, which only an open page knows, keeps others from leading a browser here.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from app.attachments.reading import LARGEST_FILE, read_file, safe_name
from app.attachments.stored import StoredFiles
from app.chat_file import advice
from engine.data.documents import sound
from engine.data.errors import EngineError
from engine.data.shown import shown

READ = "/files/read"
_AT_ONCE = 2
"""Files being read: each may take a gigabyte."""


def add_file_routes(app: FastAPI, store: StoredFiles, is_open: Callable[[str], bool]) -> None:
    """is_open: whether a page has the session of this name."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def take(request: Request) -> Response:
        if not is_open(request.query_params.get("session", "")):
            return JSONResponse({"error": "The page has lost its session: reload it."}, 403)
        name = safe_name(sound(request.query_params.get("name", "")))
        async with places:
            with tempfile.TemporaryDirectory(prefix="forerun-") as folder:
                path = Path(folder) / "file"
                try:
                    is_whole = await _receive(request, path)
                except ClientDisconnect:
                    return Response(status_code=400)
                if not is_whole:
                    most = f"{name} has more than {LARGEST_FILE:,} bytes, which is the most"
                    return JSONResponse({"error": most}, 400)
                return await asyncio.to_thread(_read, store, path, name)

    app.add_route(READ, take, methods=["POST"])


async def _receive(request: Request, path: Path) -> bool:
    """The limit holds while reading: nothing is believed of how long it will be."""
    size = 0
    with path.open("wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > LARGEST_FILE:
                return False
            await asyncio.to_thread(file.write, chunk)
    return True


def _read(store: StoredFiles, path: Path, name: str) -> Response:
    try:
        file = read_file(path, name)
        store.keep_file(file)
    except EngineError as error:
        return JSONResponse({"error": str(error)})  # an answer, not a fault: what it reads is so
    except sqlite3.Error as error:
        message = f"The file cannot be kept: {error} ({advice(error)})."
        return JSONResponse({"error": shown(message)}, 500)
    told = {"sha256": file.sha256, "name": file.name, "kind": file.kind, "bytes": file.bytes}
    return JSONResponse(told)
