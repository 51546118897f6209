"""`forerun`: without a command the page, with one the engine's commands.

Imports are made when they are needed: a command must not wait for the web server's packages, and
the engine process runs this file again when it starts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if _names_command(arguments):
        return _run_command(arguments)
    return _run_page(arguments)


def _names_command(arguments: Sequence[str]) -> bool:
    """The page takes options only, so any other word is a command; global options may precede."""
    words = iter(arguments)
    for word in words:
        if word == "--data-dir":
            next(words, None)
        elif word != "--verbose" and not word.startswith("--data-dir="):
            return not word.startswith("-")
    return False


def _run_command(arguments: Sequence[str]) -> int:
    """The engine's commands, and those that know of chats."""
    from app.exchange import chats
    from engine.cli import COMMANDS
    from engine.cli import main as run_command

    return run_command(arguments, (*COMMANDS, chats))


def _run_page(arguments: Sequence[str]) -> int:
    from app.launch import run_page

    return run_page(arguments)


if __name__ == "__main__":
    sys.exit(main())
