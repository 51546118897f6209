"""`forerun models scan`: models that other programs left on this disk."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from engine.cli.parser import Subparsers
from engine.data.documents import json_text
from engine.data.shown import shown
from engine.files.disk import size_text
from engine.files.reference import reference_of
from engine.models.elsewhere.machine import this_machine
from engine.models.elsewhere.scan import PROGRAMS, FoundModel, scan


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "scan", description="Models of other programs on this disk; they are used where they are."
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(func=_scan)


def _scan(arguments: argparse.Namespace) -> int:
    found = scan(this_machine())
    if arguments.json:
        print(json_text({"models": [model.to_json() for model in found]}, indent=2))
    else:
        print("\n".join(_rows(found)))
    return 0


def _rows(found: Sequence[FoundModel]) -> Iterator[str]:
    """Each with the path that a command takes."""
    if not found:
        programs = ", ".join(name for name, _ in PROGRAMS)
        yield f"no models of other programs here; looked for those of {programs}"
        return
    width = max(len(model.program) for model in found)
    for model in found:
        quant = model.info.quant if model.info is not None else ""
        what = "" if model.role == "model" else f" [{model.role}]"
        yield (
            f"{model.program:<{width}}  {size_text(model.bytes):>8}  {quant:<7}  "
            f"{shown(model.name)}{what}"
        )
        yield f"{'':<{width}}  {shown(model.problem) or reference_of(model.path)}"
