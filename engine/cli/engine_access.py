"""The engine process as the commands use it: opened, its log and progress shown on stderr."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator

from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from engine.data.request import LoadRequest
from engine.process.client import EngineClient
from engine.process.messages import LoadProgress


@contextlib.contextmanager
def open_engine(arguments: argparse.Namespace) -> Iterator[EngineClient]:
    """A client that is closed afterwards; with --verbose the native log goes to stderr."""
    client = EngineClient(DataFolder(arguments.data_dir))
    try:
        yield client
    finally:
        if arguments.verbose:
            for line in client.log_lines():
                print(line.text, file=sys.stderr)
        client.close()


def show_steps() -> Callable[[LoadProgress], None]:
    """Names every step once, on stderr."""
    seen: set[str] = set()

    def show(progress: LoadProgress) -> None:
        if progress.label not in seen:
            seen.add(progress.label)
            print(f"{progress.label} ...", file=sys.stderr)

    return show


def load_shown(client: EngineClient, request: LoadRequest, *, verbose: bool) -> LoadedSummary:
    """Loads; notices always, steps only when wanted, on stderr."""
    loaded = client.load(request, show_steps() if verbose else None)
    for notice in loaded.notices:
        print(f"forerun: {notice}", file=sys.stderr)
    if verbose and loaded.strict_width is not None:
        widths = ", ".join(map(str, loaded.strict_widths))
        print(f"strict numerics: passes of {widths} rows", file=sys.stderr)
    return loaded
