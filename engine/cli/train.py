"""`forerun train`: data from the target, and drafters learned from it."""

from __future__ import annotations

import argparse
import shutil

from engine.cli import train_curve, train_heads
from engine.cli.parser import Subparsers
from engine.cli.train_data import (
    NO_LIMIT,
    add_data_options,
    add_target,
    collect_settings,
    find_place,
    gather,
)
from engine.cli.train_output import StopFlag, TrainOutput
from engine.data.errors import BadOptionError
from engine.data.shown import shown
from engine.files.disk import size_text
from engine.train.corpus.shards import count


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "train", description="Learn a drafter for a target from its own answers, on this machine."
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    train_heads.add_parsers(kinds)
    train_curve.add_parser(kinds)
    collecting = kinds.add_parser(
        "collect", description="Only collect answers and features; training goes on from them."
    )
    add_target(collecting)
    add_data_options(collecting)
    collecting.set_defaults(func=_collect)
    deleting = kinds.add_parser("delete", description="Delete what was collected for a target.")
    add_target(deleting)
    deleting.set_defaults(func=_delete)


def _collect(arguments: argparse.Namespace) -> int:
    place = find_place(arguments)
    if arguments.minutes is None and arguments.tokens is None:
        raise BadOptionError("give --tokens or --minutes")
    tokens = NO_LIMIT if arguments.tokens is None else arguments.tokens
    seconds = None if arguments.minutes is None else 60.0 * arguments.minutes
    settings = collect_settings(arguments, place, tokens, seconds)
    with StopFlag() as stop:
        output = TrainOutput(arguments.json, stop)
        gather(arguments, place, settings, output)
    output.corpus(place.folder, count(place.folder))
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    place = find_place(arguments)
    if not place.folder.is_dir():
        raise BadOptionError(f"nothing was collected for {place.target.name}")
    freed = sum(file.stat().st_size for file in place.folder.rglob("*") if file.is_file())
    shutil.rmtree(place.folder)
    print(f"removed {shown(str(place.folder))}, {size_text(freed)} freed")
    return 0
