"""`forerun`: without a command the page, with one the engine's commands.

Imports are made when they are needed: a command must not wait for the web server's packages, and
the engine process runs this file again when it starts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and not arguments[0].startswith("-"):
        return _run_command(arguments)
    return _run_page(arguments)


def _run_command(arguments: Sequence[str]) -> int:
    from engine.cli import main as run_command

    return run_command(arguments)


def _run_page(arguments: Sequence[str]) -> int:
    from app.launch import run_page

    return run_page(arguments)


if __name__ == "__main__":
    sys.exit(main())
