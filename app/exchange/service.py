"""Import and export for the page: files come and go while chats are being written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

from app.conversations import Conversations
from app.exchange.chat_rows import read_chat, write_chats
from app.exchange.exporting import ExportFormat, chosen_chats, exported, file_name
from app.exchange.importing import read_chats
from app.exchange.summary import summary_json
from engine.data.errors import RequestError


class Exchange:
    """Thread-safe. One file is read at a time: each needs much memory."""

    def __init__(self, store: Conversations, announce: Callable[[], None]) -> None:
        self._store = store
        self._announce = announce
        self._reading = threading.Lock()

    def take(self, file: IO[bytes], name: str) -> dict[str, Any]:
        """Adds the chats of a file, all or none; what came of it. EngineError, sqlite3.Error."""
        if not self._reading.acquire(blocking=False):
            raise RequestError("another file is being imported: wait until it is done")
        try:
            found = read_chats(file, name)
            with self._store.atomic() as connection:
                messages = write_chats(connection, found.chats)
        finally:
            self._reading.release()
        self._announce()
        return summary_json(found, messages)

    def give(self, conversation: int | None, form: ExportFormat) -> tuple[str, Iterator[str]]:
        """The name of the file, and its text. BadOptionError when there is nothing."""
        chats = chosen_chats(self._store.reading, conversation)
        title = None
        if conversation is not None:
            with self._store.reading() as connection:
                chat = read_chat(connection, conversation)
            title = "chat" if chat is None else chat.title
        return file_name(title, form), exported(self._store.reading, chats, form)
