"""`forerun COMMAND ...`: finds the command, runs it, turns every failure into one line.

Each command is a module with `add_parser(subparsers)`, which sets `func`: it takes the parsed
arguments and returns the exit code. In the arguments `data_dir` is always a Path and `verbose` a
bool.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from engine.cli import bench, calibrate, doctor, generate, models, train, verify
from engine.cli.parser import CommandParser, Subparsers
from engine.data.errors import BadOptionError, EngineError
from engine.data.folders import open_data_folder
from engine.data.shown import shown

Command = Callable[[argparse.Namespace], int]


class CommandModule(Protocol):
    __name__: str

    def add_parser(self, subparsers: Subparsers) -> None: ...


COMMANDS: tuple[CommandModule, ...] = (generate, bench, calibrate, verify, train, models, doctor)
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
BROKEN_PIPE = 141  # 128 + SIGPIPE


def command_names() -> frozenset[str]:
    """The first words that mean a command; anything else starts the page."""
    return frozenset(module.__name__.rpartition(".")[2] for module in COMMANDS)


def build_parser(commands: Sequence[CommandModule] = COMMANDS) -> CommandParser:
    parser = CommandParser(
        prog="forerun",
        description="Speculative decoding you can watch. Without a command: the page.",
    )
    parser.set_defaults(data_dir=None, verbose=False)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in commands:
        module.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None, commands: Sequence[CommandModule] = COMMANDS) -> int:
    """Run one command and return its exit code: 0 done, 1 the run failed, 2 a wrong request."""
    _use_utf8()
    try:
        code = _run(argv, commands)
        sys.stdout.flush()
    except EngineError as error:
        return fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        return fail(f"{error} (check that the path exists and is writable)", 1)
    except Exception as error:  # noqa: BLE001 - the outermost frame: a bug must read as one line too
        hint = "set FORERUN_DEBUG=1 to see where, and please report it"
        return fail(f"unexpected {type(error).__name__}: {error} ({hint})", 1)
    return code


def _run(argv: Sequence[str] | None, commands: Sequence[CommandModule]) -> int:
    try:
        arguments, unknown = build_parser(commands).parse_known_args(argv)
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    if unknown:
        hint = f"see `forerun {arguments.command} --help`"
        raise BadOptionError(f"unknown option or value: {' '.join(unknown)} ({hint})")
    chosen = arguments.data_dir
    arguments.data_dir = open_data_folder(chosen).root
    logging.basicConfig(
        level=logging.INFO if arguments.verbose else logging.WARNING,
        format="%(message)s",
        stream=sys.stderr,
    )
    return cast(Command, arguments.func)(arguments)


def fail(message: str, code: int) -> int:
    """One line on stderr; with FORERUN_DEBUG=1, where it happened before it."""
    if os.environ.get("FORERUN_DEBUG") == "1":
        traceback.print_exc()
    print(f"forerun: {shown(' '.join(message.split()))}", file=sys.stderr)
    return code


def _use_utf8() -> None:
    """Windows consoles default to a code page that cannot show most tokens."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


def _drop_output() -> None:
    """The reader has gone: keep the interpreter's last flush from failing again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
