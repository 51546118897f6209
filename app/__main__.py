"""`forerun`: without a command the page, with one the engine's commands.

What only one of the two needs is imported when it is needed: a command must not wait for the web
server's packages, and set-up problems of either must not stop the other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from engine.cli import main as run_command


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and not arguments[0].startswith("-"):
        return run_command(arguments)
    return _run_page(arguments)


def _run_page(arguments: Sequence[str]) -> int:
    from app.launch import run_page

    return run_page(arguments)


if __name__ == "__main__":
    sys.exit(main())
