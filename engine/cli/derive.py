"""`forerun models skip-layers` and `quantize`: copies of a model that draft for it."""

from __future__ import annotations

import argparse
import sys

from engine.cli.engine_access import open_engine
from engine.cli.parser import Subparsers
from engine.drafters.expression import parse_skip
from engine.errors import BadOptionError
from engine.messages import LoadProgress

_MODEL_HELP = "catalogue id, GGUF path or hub:owner/repo/file.gguf"


def add_parsers(subparsers: Subparsers) -> None:
    skipping = subparsers.add_parser(
        "skip-layers", description="Copy a model without some layers: an early-exit drafter."
    )
    skipping.add_argument("model", help=_MODEL_HELP)
    skipping.add_argument(
        "--skip", metavar="10+13+16", default="", help="default: one in fifteen, near the middle"
    )
    skipping.set_defaults(func=_skip_layers)
    quantizing = subparsers.add_parser(
        "quantize", description="Copy a model with all weights in another format."
    )
    quantizing.add_argument("model", help=_MODEL_HELP)
    quantizing.add_argument("--to", required=True, metavar="FORMAT", help="Q4_0, Q8_0, BF16, ...")
    quantizing.set_defaults(func=_quantize)


def _skip_layers(arguments: argparse.Namespace) -> int:
    skip = parse_skip(f"skip={arguments.skip}") if arguments.skip else ()
    with open_engine(arguments) as client:
        path = client.make_model(arguments.model, skip=skip, on_progress=_show)
    print(path)
    return 0


def _quantize(arguments: argparse.Namespace) -> int:
    file_format = arguments.to.upper()
    if not file_format:
        raise BadOptionError("--to needs a format, for example Q4_0")
    with open_engine(arguments) as client:
        path = client.make_model(arguments.model, file_format=file_format, on_progress=_show)
    print(path)
    return 0


def _show(progress: LoadProgress) -> None:
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"{progress.label}: {progress.fraction:.0%}", end=end, file=sys.stderr, flush=True)
