"""The argument parser of all commands: global options everywhere, mistakes as one line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from engine.data.errors import BadOptionError

Subparsers: TypeAlias = "argparse._SubParsersAction[CommandParser]"


if TYPE_CHECKING:
    _Action = argparse._SubParsersAction["CommandParser"]
else:
    _Action = argparse._SubParsersAction  # generic for type checkers only


class _Subcommands(_Action):
    """Lists every subcommand in the help, with its description."""

    def add_parser(  # type: ignore[override]
        self, name: str, *, description: str | None = None
    ) -> CommandParser:
        return super().add_parser(name, description=description, help=description)


class CommandParser(argparse.ArgumentParser):
    """Accepts --data-dir and --verbose at every level; raises instead of exiting on a mistake.

    argparse creates subcommands with the class of their parent, so every subcommand, nested ones
    included, has the global options without naming them.
    """

    def __init__(
        self,
        prog: str | None = None,
        description: str | None = None,
    ) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self.register("action", "parsers", _Subcommands)
        # SUPPRESS: a subcommand that was not given the option must not undo its parent's value.
        self.add_argument(
            "--data-dir",
            type=Path,
            default=argparse.SUPPRESS,
            metavar="DIR",
            help="where models, chats and measurements are kept",
        )
        self.add_argument(
            "--verbose",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show llama.cpp's log and progress notes on stderr",
        )

    def error(self, message: str) -> NoReturn:
        raise BadOptionError(f"{message} (see `{self.prog} --help`)")
