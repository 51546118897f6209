"""One connection to the conversation file, behind one lock."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from app.chat_file import open_chat_file, transaction


class ChatStore:
    """Thread-safe. problem: what the user has to know of the file, "" when all is well."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        opened = open_chat_file(path)
        self._connection = opened.connection
        self.problem = opened.problem

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def atomic(self) -> Iterator[sqlite3.Connection]:
        """All changes made inside happen, or none: nothing is lost when the disk is full. Inside
        another one it is a part of that."""
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            with transaction(self._connection):
                yield self._connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Nothing changes meanwhile: keep it short."""
        with self._lock:
            yield self._connection

    def change(self, statement: str, *values: Any) -> bool:
        """Whether a row was changed."""
        with self._lock, closing(self._connection.execute(statement, values)) as cursor:
            return cursor.rowcount > 0

    def _run(self, statement: str, *values: Any) -> int:
        """The number of the row that was added, if one was."""
        with self._lock, closing(self._connection.execute(statement, values)) as cursor:
            return int(cursor.lastrowid or 0)

    def _all(self, query: str, *values: Any) -> list[Any]:
        with self._lock, closing(self._connection.execute(query, values)) as cursor:
            return cursor.fetchall()
