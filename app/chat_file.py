"""Opens the conversation file: makes it, brings an older one up to date, saves what a damaged one
still holds. Whatever is replaced stays beside it under another name.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.chat_salvage import UNREADABLE, as_text, copy_rows, readable_copy
from app.chat_schema import SCHEMA, VERSION
from engine.data.errors import RunError
from engine.files.disk import aside_name

_LOG = logging.getLogger(__name__)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_COPIES = ".conversations."
_PATIENCE_MS = 30_000
"""For a page that is writing a reply, or importing."""
_JOURNALS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class ChatFile:
    """problem: what the user has to know of it, "" when all is well."""

    connection: sqlite3.Connection
    problem: str = ""


def open_chat_file(path: Path) -> ChatFile:
    """Raises sqlite3.Error or OSError when there is no room or no right to write, RunError when
    a newer Forerun has written it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in path.parent.glob(f"{_COPIES}*"):  # by a recovery that was killed
        shutil.rmtree(left, ignore_errors=True)
    problem = ""
    try:
        version = _version(path)
    except UNREADABLE as error:
        if isinstance(error, sqlite3.Error) and not is_damaged(error):
            raise
        problem = _recovered(path, error)
    else:
        if version > VERSION:
            raise RunError(
                f"{path} was written by a newer Forerun: start that one, or choose another"
                " --data-dir"
            )
        if version < VERSION:
            with closing(_connect(path)) as old:
                _rebuild(path, old)
            _replace(path, aside_name(path, f"version-{version}"))
    connection = _connect(path)
    connection.executescript(SCHEMA)
    return ChatFile(connection, problem)


def open_beside(path: Path) -> sqlite3.Connection:
    """The file of a page that runs: nothing is repaired or brought up to date.

    Raises sqlite3.Error, and RunError when it is not of this version.
    """
    connection = _connect(path)
    connection.execute(f"pragma busy_timeout = {_PATIENCE_MS}")
    version = connection.execute("pragma user_version").fetchone()[0]
    if version != VERSION:
        connection.close()
        raise RunError(f"{path} was written by another version of Forerun: use that one's command")
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All changes made inside happen, or none."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled back already
            connection.execute("rollback")
        raise


def is_damaged(error: sqlite3.Error) -> bool:
    return _code(error) in _DAMAGED


def advice(error: sqlite3.Error) -> str:
    """What to do about an error of the conversation file, for the end of a sentence."""
    if is_damaged(error):
        return "start Forerun again: it recovers what can be read"
    if _code(error) in _FULL:
        return "free some space on the disk"
    return "check that the data folder is writable, or choose another --data-dir"


def _code(error: sqlite3.Error) -> int:
    """Without the upper bytes, which tell variants of it."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _version(path: Path) -> int:
    """Of a sound file; that of this program when there is none, or nothing in it yet."""
    if not path.exists():
        return VERSION
    with closing(_connect(path)) as connection:
        verdict = connection.execute("pragma quick_check(1)").fetchone()[0]
        if verdict != "ok":
            error = sqlite3.DatabaseError(" ".join(str(verdict).split()))
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        tables = connection.execute("select count(*) from sqlite_schema").fetchone()[0]
        version = connection.execute("pragma user_version").fetchone()[0]
    return int(version) if tables else VERSION


def _recovered(path: Path, error: Exception) -> str:
    """The damaged file stays as it is: sqlite reads a copy of it, since it might write to it."""
    with tempfile.TemporaryDirectory(prefix=_COPIES, dir=path.parent) as folder:
        with closing(readable_copy(path, Path(folder))) as old:
            chats, messages = _rebuild(path, old)
    aside = aside_name(path, "damaged")
    _replace(path, aside)
    found = f"{messages} messages in {chats} chats" if messages else "nothing"
    problem = (
        f"The file of your chats was damaged ({_reason(error)}): {found} could be read."
        f" It is kept as {aside}."
    )
    _LOG.error("%s", problem)
    return problem


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, sqlite3.Error) else "its tables are unreadable"


def _rebuild(path: Path, old: sqlite3.Connection) -> tuple[int, int]:
    """All that can be read, in a new file; how many conversations and messages that is."""
    fresh = _fresh(path)
    for suffix in ("", *_JOURNALS):
        Path(f"{fresh}{suffix}").unlink(missing_ok=True)
    with closing(_connect(fresh)) as new:
        new.execute("pragma journal_mode = delete")  # one file, to be renamed in one step
        new.executescript(SCHEMA)
        return copy_rows(old, new)


def _replace(path: Path, aside: Path) -> None:
    """The file keeps its name until the new one takes it: a crash in between loses nothing.

    Its journals go first, since they would be taken for the new file's.
    """
    try:
        os.link(path, aside)
    except OSError:  # not every file system has links
        shutil.copy2(path, aside)
    for suffix in _JOURNALS:
        journal = Path(f"{path}{suffix}")
        if journal.exists():
            os.replace(journal, f"{aside}{suffix}")
    os.replace(_fresh(path), path)


def _fresh(path: Path) -> Path:
    return path.with_suffix(f".fresh{path.suffix}")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    connection.text_factory = as_text
    try:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma foreign_keys = on")
    except UNREADABLE:
        connection.close()
        raise
    return connection
