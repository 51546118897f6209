"""The command line of the page: flags, a free port, the browser, and errors as one line."""

from __future__ import annotations

import argparse
import logging
import socket
import sqlite3
import sys
import webbrowser
from collections.abc import Sequence

from app.chat_file import advice
from app.ownership import Ownership
from engine.cli import command_names, fail
from engine.cli.parser import CommandParser
from engine.data.errors import BadOptionError, EngineError
from engine.data.folders import DataFolder, open_data_folder
from engine.files.privacy import keep_private, protect
from engine.models.elsewhere.machine import this_machine
from engine.process.client import EngineClient

DEFAULT_PORT = 7860
PORTS_TRIED = 20


def run_page(arguments: Sequence[str]) -> int:
    """Exit code: 0 when the user ended it, 1 and 2 as in the commands."""
    try:
        options = _parser().parse_args(arguments)
        logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING)
        return _start(options)
    except EngineError as error:
        return fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        return fail(f"{error} (check that the folder is writable)", 1)
    except sqlite3.Error as error:
        return fail(f"the file of the chats cannot be used: {error} ({advice(error)})", 1)


def _start(options: argparse.Namespace) -> int:
    """The page of this data folder: the one that runs already, or a new one."""
    keep_private()
    folder = open_data_folder(options.data_dir).ensure()
    ownership = Ownership(folder)
    running = ownership.take()
    if running is not None:
        print(f"Forerun is running already with {folder.root}: {running.address}", flush=True)
        if not options.no_browser:
            webbrowser.open(running.address)
        return 0
    try:
        protect(folder)
        _serve(options, folder, ownership)
    finally:
        ownership.close()
    return 0


def _serve(options: argparse.Namespace, folder: DataFolder, ownership: Ownership) -> None:
    from app.model_service import LibraryModelService
    from app.run import serve
    from app.server import is_loopback
    from app.services import Application
    from engine.downloads.manager import Downloads

    if not is_loopback(options.host):
        warning = "anyone who reaches this address can read your chats and load models"
        print(f"forerun: listening on {options.host}: {warning}", file=sys.stderr)
    port = free_port(options.host, options.port)
    models, downloads = LibraryModelService(folder, this_machine()), Downloads(folder)
    application = Application(EngineClient(folder), models, downloads, folder)
    application.load_last()
    shown = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http://{shown}:{port}/"

    def ready() -> None:
        ownership.listens(address)
        print(f"Forerun is ready: {address}  (Ctrl+C ends it)", flush=True)
        if not options.no_browser:
            webbrowser.open(address)

    serve(application, options.host, port, ready, options.verbose)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="forerun",
        description="Speculative decoding you can watch: opens the page in your browser. "
        f"Commands: {', '.join(sorted({*command_names(), 'chats'}))} (forerun COMMAND --help).",
    )
    parser.set_defaults(data_dir=None, verbose=False)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=None, help=f"default: {DEFAULT_PORT} or next")
    parser.add_argument("--no-browser", action="store_true", help="do not open the browser")
    return parser


def free_port(host: str, wanted: int | None) -> int:
    """The wanted port, or without a wish the first free one from the default on.

    Raises BadOptionError if there is none.
    """
    if wanted is not None:
        if not 1 <= wanted <= 65535:
            raise BadOptionError("--port must be between 1 and 65535")
        if not _is_free(host, wanted):
            raise BadOptionError(f"port {wanted} of {host} cannot be used: choose another --port")
        return wanted
    for port in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED):
        if _is_free(host, port):
            return port
    last = DEFAULT_PORT + PORTS_TRIED - 1
    raise BadOptionError(f"ports {DEFAULT_PORT} to {last} are taken: choose one with --port")


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the server will do: a port that only lingers after its last user is free.
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
