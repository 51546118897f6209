"""`forerun chats export | import`: chats in and out, beside a running page too."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from app.chat_file import advice, open_beside, open_chat_file, transaction
from app.exchange.chat_rows import write_chats
from app.exchange.exporting import FORMATS, ExportFormat, chosen_chats, exported
from app.exchange.importing import read_chats
from app.exchange.summary import summary_json, summary_lines
from engine.cli.parser import Subparsers
from engine.data.documents import json_text
from engine.data.errors import BadOptionError, RunError
from engine.data.folders import DataFolder
from engine.files.disk import replace_atomically, user_path
from engine.files.file_lock import FileLock
from engine.files.privacy import keep_private

_MARKDOWN_ENDINGS = (".md", ".markdown")


def add_parser(subparsers: Subparsers) -> None:
    description = "Take your chats out to a file, or bring chats of other programs in."
    parser = subparsers.add_parser("chats", description=description)
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    out = steps.add_parser("export", description="Write chats to a file (JSON or Markdown).")
    out.add_argument("file", metavar="FILE", help="replaced if it exists")
    out.add_argument(
        "--chat", type=int, metavar="ID", help="one chat: the number its page's address ends in"
    )
    out.add_argument(
        "--format", choices=FORMATS, help="default: markdown if FILE ends in .md, else json"
    )
    out.set_defaults(func=_export)
    into = steps.add_parser("import", description="Add the chats of a file to yours.")
    into.add_argument("file", metavar="FILE", help="of Forerun or another program; see docs")
    into.add_argument("--json", action="store_true", help="print the summary as JSON")
    into.set_defaults(func=_import)


def _export(arguments: argparse.Namespace) -> int:
    folder, path = DataFolder(arguments.data_dir), user_path(arguments.file)
    form: ExportFormat = arguments.format or (
        "markdown" if path.suffix.lower() in _MARKDOWN_ENDINGS else "json"
    )
    if not folder.conversations_file.exists():
        raise BadOptionError("there are no chats to export")
    if path.is_dir():
        raise BadOptionError(f"{path} is a folder: name a file")
    with _chat_file(folder) as connection:

        @contextmanager
        def reading() -> Iterator[sqlite3.Connection]:
            yield connection

        connection.execute("begin")  # all of it as it is at one moment
        chats = chosen_chats(reading, arguments.chat)
        replace_atomically(path, exported(reading, chats, form))
    print(f"{len(chats):,} chat{'' if len(chats) == 1 else 's'} written to {path}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    keep_private()
    folder, path = DataFolder(arguments.data_dir).ensure(), user_path(arguments.file)
    if not path.is_file():
        raise BadOptionError(f"{path} is not a file")
    with path.open("rb") as file:
        found = read_chats(file, path.name)
    with _chat_file(folder) as connection, transaction(connection):
        messages = write_chats(connection, found.chats)
    summary = summary_json(found, messages)
    print(json_text(summary) if arguments.json else "\n".join(summary_lines(summary)))
    return 0


@contextmanager
def _chat_file(folder: DataFolder) -> Iterator[sqlite3.Connection]:
    """Alone as a page opens it, else beside the page that has it. RunError."""
    lock = FileLock(folder.page_lock)
    try:
        with closing(_opened(folder, lock)) as connection:
            yield connection
    except sqlite3.Error as error:
        reason = f"the file of the chats cannot be used: {error} ({advice(error)})"
        raise RunError(reason) from error
    finally:
        lock.close()


def _opened(folder: DataFolder, lock: FileLock) -> sqlite3.Connection:
    if not lock.take():
        return open_beside(folder.conversations_file)
    opened = open_chat_file(folder.conversations_file)
    if opened.problem:
        print(f"forerun: {opened.problem}", file=sys.stderr)
    return opened.connection
