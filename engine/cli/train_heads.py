"""`forerun train medusa|eagle3|early-exit`: collects what is missing, then learns from it."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path

from engine.cli.parser import CommandParser, Subparsers
from engine.cli.train_data import (
    NO_LIMIT,
    Place,
    add_data_options,
    add_target,
    collect_settings,
    find_place,
    gather,
    new_text,
)
from engine.cli.train_output import StopFlag, TrainOutput
from engine.errors import BadOptionError
from engine.folders import DataFolder
from engine.machine import physical_cores
from engine.models.files import write_atomically
from engine.train.fitting import Budget, fit, free_name, plan_budget, require_torch
from engine.train.forecast import NOT_MEASURED, TrainingBudget, target_forecast
from engine.train.shards import count
from engine.train.trainable import require_trainable
from engine.train.training import HeadKind, TrainRequest, TrainSettings

KINDS: dict[HeadKind, str] = {
    "medusa": "Medusa heads: each guesses one of the next tokens.",
    "eagle3": "An EAGLE-3 layer: reads three layers of the target, drafts token by token.",
    "early-exit": "The target cut to a few layers, taught to say what the whole target says.",
}
DEFAULT_MINUTES = 30.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def add_parsers(kinds: Subparsers) -> None:
    for kind, description in KINDS.items():
        parser = kinds.add_parser(kind, description=description)
        add_target(parser)
        add_data_options(parser)
        _add_training_options(parser, kind)
        parser.set_defaults(func=run)


def _add_training_options(parser: CommandParser, kind: HeadKind) -> None:
    defaults = TrainSettings()
    group = parser.add_argument_group("training")
    if kind == "medusa":
        group.add_argument("--heads", type=int, default=defaults.positions, metavar="N")
        group.add_argument(
            "--own-rows", action="store_true", help="learn output rows too: larger, slower"
        )
    else:
        group.add_argument("--depth", type=int, default=defaults.positions, metavar="N")
    if kind == "early-exit":
        group.add_argument("--keep-layers", type=int, default=defaults.keep_layers, metavar="N")
    else:
        group.add_argument(
            "--draft-vocab", type=int, default=defaults.draft_vocabulary, metavar="N"
        )
    group.add_argument("--epochs", type=float, default=2.0, help="with --tokens, over the corpus")
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    group.add_argument(
        "--precision",
        choices=("auto", "float32", "bfloat16"),
        default="auto",
        help="of products in training; auto: bfloat16 where the device multiplies it",
    )
    group.add_argument("--out", metavar="NAME", help="default: the next free number")
    group.add_argument("--published", action="store_true", help="also the published layout")
    group.add_argument("--resume", action="store_true", help="go on with an unfinished training")


def run(arguments: argparse.Namespace) -> int:
    require_torch()
    if arguments.minutes is not None and arguments.tokens is not None:
        raise BadOptionError("give --minutes or --tokens, not both")
    place = find_place(arguments)
    require_trainable(arguments.kind, place.target.path)
    request = _request(arguments, place)
    if Path(request.output).exists():
        raise BadOptionError(
            f"there is a {arguments.kind} drafter {request.name!r} already; choose another --out"
        )
    with StopFlag() as stop:
        output = TrainOutput(arguments.json, stop)
        output.say(_forecast(arguments, place))
        request = _collected(arguments, place, request, output)
        if stop.is_set():
            output.say("stopped; what was collected is kept: --resume goes on")
            return 1
        card = fit(request, output.progress, stop.is_set)
        _state_file(request).unlink(missing_ok=True)
    output.card(card, request.output)
    return 0


def _forecast(arguments: argparse.Namespace, place: Place) -> str:
    budget = TrainingBudget(arguments.minutes or DEFAULT_MINUTES, arguments.tokens)
    folder = DataFolder(arguments.data_dir)
    found = target_forecast(arguments.kind, place.target, place.sha256, folder, budget)
    return NOT_MEASURED if found is None else found.sentence


def _request(arguments: argparse.Namespace, place: Place) -> TrainRequest:
    heads = DataFolder(arguments.data_dir).heads
    stem = f"{place.name}-{arguments.kind}"
    name = arguments.out or free_name(heads, stem)
    if not _NAME.fullmatch(name):
        raise BadOptionError("--out may have letters, digits, dots and dashes, at most 40")
    medusa = arguments.kind == "medusa"
    positions = arguments.heads if medusa else arguments.depth
    if not 1 <= positions <= 8:
        raise BadOptionError(f"{'--heads' if medusa else '--depth'} goes from 1 to 8")
    early_exit = arguments.kind == "early-exit"
    defaults = TrainSettings()
    settings = TrainSettings(
        positions=positions,
        draft_vocabulary=defaults.draft_vocabulary if early_exit else arguments.draft_vocab,
        epochs=arguments.epochs,
        tokens=arguments.tokens,
        seed=arguments.seed,
        threads=arguments.threads or physical_cores(),
        device=arguments.device,
        precision=arguments.precision,
        own_rows=medusa and arguments.own_rows,
        keep_layers=arguments.keep_layers if early_exit else defaults.keep_layers,
    )
    unfinished = place.folder / "unfinished" / f"{arguments.kind}-{name}.pt"
    return TrainRequest(
        kind=arguments.kind,
        name=name,
        target=str(place.target.path),
        target_sha256=place.sha256,
        corpus=str(place.folder),
        output=str(heads / f"{stem}-{name}"),
        checkpoint=str(unfinished),
        command=shlex.join(["forerun", *sys.argv[1:]]),
        settings=settings,
        published=arguments.published,
    )


def _collected(
    arguments: argparse.Namespace, place: Place, request: TrainRequest, output: TrainOutput
) -> TrainRequest:
    """Collects what this training needs; the request with what is left for training itself."""
    checkpoint, state = Path(request.checkpoint), _state_file(request)
    if not arguments.resume:
        checkpoint.unlink(missing_ok=True)
        state.unlink(missing_ok=True)
    budget = None
    if arguments.tokens is None:
        budget = plan_budget(arguments.minutes or DEFAULT_MINUTES)
        settings = replace(request.settings, seconds=budget.training)
        request = replace(request, settings=settings)
    if not checkpoint.is_file():
        _collect(arguments, place, budget, state, output)
    return request


def _collect(
    arguments: argparse.Namespace,
    place: Place,
    budget: Budget | None,
    state: Path,
    output: TrainOutput,
) -> None:
    """Time that an interrupted run has spent on collecting is not spent again."""
    present = count(place.folder).answer_tokens
    tokens = NO_LIMIT
    if arguments.tokens is not None:
        tokens = max(arguments.tokens, present + min(arguments.tokens, new_text(arguments, place)))
    if present >= tokens:
        return
    spent = float(json.loads(state.read_text())["collected"]) if state.is_file() else 0.0
    seconds = None if budget is None else budget.collecting - spent
    if seconds is not None and seconds <= 0:
        return
    started = time.monotonic()
    try:
        gather(arguments, place, collect_settings(arguments, place, tokens, seconds), output)
    finally:
        if place.folder.is_dir():
            spent += time.monotonic() - started
            write_atomically(state, json.dumps({"collected": spent}))


def _state_file(request: TrainRequest) -> Path:
    return Path(request.checkpoint).with_suffix(".json")
