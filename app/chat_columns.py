"""Columns of chats that files of an earlier version lack."""

from __future__ import annotations

import sqlite3

_COLUMNS = {
    "pinned": "integer not null default 0",
    "folder": "text not null default ''",
    "settings": "text not null default '{}'",
}


def prepare(connection: sqlite3.Connection) -> None:
    """The columns, in a file that was made without them."""
    known = {row[1] for row in connection.execute("pragma table_info(conversations)")}
    for name, kind in _COLUMNS.items():
        if name not in known:
            connection.execute(f"alter table conversations add column {name} {kind}")
