"""What an old or damaged conversation file still holds, row by row, into a new one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from app.chat_schema import SCHEMA, TABLES
from app.chat_upgrade import REPLACED, grow_trees

UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What reading a damaged file raises; the second where sqlite's message quotes what it found."""
_MOST_PROBED = 20_000
"""Row numbers that are tried one by one where a damaged page hides which there are."""
_UNTITLED = "Recovered chat"
_DEFAULTS: dict[str, Any] = {
    **{"tokens": "[]", "details": "{}", "ids": "{}", "settings": "{}", "reasoning": ""},
    **{"current": None, "parent": None, "pinned": 0, "folder": "", "created": 0.0},
}
"""For columns that cannot be read: the text of a message is worth keeping without its figures."""
_BEFORE = "select max(id) from messages where conversation = ? and id < ? and not deleted"

_PAGE = 4096
_COUNT = slice(28, 32)
"""Where the first page says how many there are (sqlite's file format, section 1.3)."""

Row = dict[str, Any]


def copy_rows(old: sqlite3.Connection, new: sqlite3.Connection) -> tuple[int, int]:
    """Into the tables of `new`; how many conversations and messages there are then."""
    new.execute("begin immediate")
    for table, columns in TABLES.items():
        for row in rows_of(old, table, columns):
            _store(new, table, row)
    _show_paths(new)  # as it was, before other versions are there
    grow_trees(list(rows_of(old, "replaced", REPLACED)), new)
    _free_from_deleted(new)
    _show_paths(new)
    _keep_sequence(old, new)
    new.execute("commit")
    counts = (
        new.execute(f"select count(*) from {table}").fetchone()[0]
        for table in ("conversations", "messages")
    )
    return next(counts), next(counts)


def readable_copy(path: Path, folder: Path) -> sqlite3.Connection:
    """Of a damaged file, in a folder of its own. Where the first page is gone, which says what the
    others are, it gets that of a new file: the tables' roots lie where they were created."""
    copied = folder / path.name
    for suffix in ("", "-wal", "-journal"):
        part = Path(f"{path}{suffix}")
        if part.exists():
            shutil.copyfile(part, f"{copied}{suffix}")
    if not _has_tables(copied):
        _give_first_page(copied, folder / "new.sqlite3")
    return _opened(copied)


def _has_tables(path: Path) -> bool:
    with closing(_opened(path)) as connection, suppress(*UNREADABLE):
        names = {row[0] for row in connection.execute("select name from sqlite_schema")}
        return {"conversations", "messages"} <= names
    return False


def _give_first_page(path: Path, new: Path) -> None:
    with closing(_opened(new)) as connection:
        connection.executescript(SCHEMA)
    page = bytearray(new.read_bytes()[:_PAGE])
    page[_COUNT] = (path.stat().st_size // _PAGE).to_bytes(4, "big")
    with path.open("r+b") as file:
        file.write(page)


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = as_text
    return connection


def rows_of(old: sqlite3.Connection, table: str, columns: Sequence[str]) -> Iterator[Row]:
    """As far as they can be read; without the columns that an older file did not have."""
    try:
        known = {row[1] for row in old.execute(f"pragma table_info({table})")}
    except UNREADABLE:
        return
    wanted = [name for name in columns if name in known]
    if "id" not in known:
        return
    for identity in _identities(old, table):
        row = _row(old, table, wanted, identity)
        if row is not None:
            yield row


def _identities(old: sqlite3.Connection, table: str) -> Iterator[int]:
    """Walked from both ends; between the two, where pages are damaged, tried one by one."""
    rising, complete = _walk(old, f"select id from {table} order by id")
    yield from rising
    if complete:
        return
    falling, _ = _walk(old, f"select id from {table} order by id desc")
    last = rising[-1] if rising else 0
    falling = [identity for identity in falling if identity > last]
    end = min(falling) if falling else last + _MOST_PROBED
    for identity in range(last + 1, min(end, last + _MOST_PROBED)):
        with suppress(*UNREADABLE):
            if old.execute(f"select id from {table} where id = ?", (identity,)).fetchone():
                yield identity
    yield from reversed(falling)


def _walk(old: sqlite3.Connection, query: str) -> tuple[list[int], bool]:
    found: list[int] = []
    try:
        for (identity,) in old.execute(query):
            found.append(int(identity))
    except UNREADABLE:
        return found, False
    return found, True


def _row(old: sqlite3.Connection, table: str, columns: Sequence[str], identity: int) -> Row | None:
    """Column by column where the whole cannot be read; None when what matters most is gone."""
    whole = _read(old, table, ", ".join(columns), identity)
    if whole is not None:
        return dict(zip(columns, whole, strict=True))
    row: Row = {}
    for name in columns:
        found = _read(old, table, name, identity)
        if found is None and name not in _DEFAULTS:
            return None
        row[name] = _DEFAULTS[name] if found is None else found[0]
    return row


def _read(
    old: sqlite3.Connection, table: str, columns: str, identity: int
) -> tuple[Any, ...] | None:
    try:
        found = old.execute(f"select {columns} from {table} where id = ?", (identity,)).fetchone()
    except UNREADABLE:
        return None
    return None if found is None else tuple(found)


def _store(new: sqlite3.Connection, table: str, row: Row) -> None:
    """What does not fit the schema was no row of ours. A message without a chat gets a new one."""
    with suppress(sqlite3.IntegrityError):
        if table == "messages":
            new.execute(
                "insert or ignore into conversations (id, title, updated) values (?, ?, 0)",
                (row["conversation"], _UNTITLED),
            )
            _hang(new, row)
        names, places = ", ".join(row), ", ".join("?" for _ in row)
        new.execute(f"insert into {table} ({names}) values ({places})", tuple(row.values()))


def _hang(new: sqlite3.Connection, row: Row) -> None:
    """A message whose parent could not be read, or never was known, follows the one before it.

    Of a sound file of this version, a parent that is not there is that of a first message.
    """
    parent = row.get("parent")
    if parent is None and "parent" in row:
        return
    known = new.execute(
        "select 1 from messages where id = ? and conversation = ?", (parent, row["conversation"])
    ).fetchone()
    if known is None:
        row["parent"] = new.execute(_BEFORE, (row["conversation"], row["id"])).fetchone()[0]


def _free_from_deleted(new: sqlite3.Connection) -> None:
    """A message that is there follows none that was deleted, which would go without it."""
    new.execute(
        "update messages set parent = null where not deleted"
        " and parent in (select id from messages where deleted)"
    )


def _show_paths(new: sqlite3.Connection) -> None:
    """Every conversation ends its path with a message of its own that is there."""
    new.execute(
        "update conversations set current = (select max(m.id) from messages m where"
        " m.conversation = conversations.id and not m.deleted) where not exists (select 1 from"
        " messages m where m.id = current and m.conversation = conversations.id and not m.deleted)"
    )


def _keep_sequence(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Numbers of rows that went are not given out again, either."""
    with suppress(*UNREADABLE):
        for name, last in old.execute("select name, seq from sqlite_sequence").fetchall():
            changed = new.execute(
                "update sqlite_sequence set seq = max(seq, ?) where name = ?", (last, name)
            )
            if not changed.rowcount and name in TABLES:
                new.execute("insert into sqlite_sequence (name, seq) values (?, ?)", (name, last))


def as_text(stored: bytes) -> str:
    """A damaged character must not keep the rest from being read."""
    return stored.decode("utf-8", "replace")
