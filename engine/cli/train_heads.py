"""`forerun train medusa|eagle3|early-exit`: collects what is missing, then learns from it."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

from engine.cli.parser import Subparsers
from engine.cli.train_data import (
    NO_LIMIT,
    Place,
    add_data_options,
    add_target,
    collect_settings,
    find_place,
    gather,
)
from engine.cli.train_output import StopFlag, TrainOutput
from engine.cli.train_request import add_training_options, training_request
from engine.data.errors import BadOptionError
from engine.data.folders import DataFolder
from engine.train.corpus.settings import CollectSettings
from engine.train.corpus.shards import count, shard_folders, shard_notes
from engine.train.corpus.sources import new_tokens
from engine.train.fitting import Budget, fit, plan_budget, require_torch
from engine.train.forecast import NOT_MEASURED, TrainingBudget, target_forecast
from engine.train.trainable import require_trainable
from engine.train.training import HeadKind, TrainRequest, TrainSettings
from engine.train.unfinished import Progress, Unfinished

KINDS: dict[HeadKind, str] = {
    "medusa": "Medusa heads: each guesses one of the next tokens.",
    "eagle3": "An EAGLE-3 layer: reads three layers of the target, drafts token by token.",
    "early-exit": "The target cut to a few layers, taught to say what the whole target says.",
}
DEFAULT_MINUTES = 30.0
_NOTED_SECONDS = 15.0


def add_parsers(kinds: Subparsers) -> None:
    for kind, description in KINDS.items():
        parser = kinds.add_parser(kind, description=description)
        add_target(parser)
        add_data_options(parser)
        add_training_options(parser, kind)
        parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    require_torch()
    if arguments.minutes is not None and arguments.tokens is not None:
        raise BadOptionError("give --minutes or --tokens, not both")
    place = find_place(arguments)
    require_trainable(arguments.kind, place.target.path)
    request = training_request(arguments, place)
    unfinished = Unfinished(place.folder, request.kind, request.name)
    settings = collect_settings(arguments, place, NO_LIMIT, None)
    budget = None
    if arguments.tokens is None:
        budget = plan_budget(arguments.minutes or DEFAULT_MINUTES)
        request = replace(request, settings=replace(request.settings, seconds=budget.training))
    with StopFlag() as stop, unfinished.claimed():
        if not arguments.resume:
            unfinished.remove()
        output = TrainOutput(arguments.json, stop)
        output.say(_forecast(arguments, place, request.settings))
        shards = _collected(arguments, place, settings, budget, unfinished, output)
        if stop.is_set():
            output.say("stopped; what was collected is kept: --resume goes on")
            return 1
        card = _fitted(replace(request, shards=shards), unfinished, output)
    output.card(card, request.output)
    return 0


def _fitted(request: TrainRequest, unfinished: Unfinished, output: TrainOutput) -> dict[str, Any]:
    """The card. What cannot be trained is not unfinished: it would fail again."""
    try:
        card = fit(request, output.progress, output.stop.is_set)
    except BadOptionError:
        unfinished.remove()
        raise
    unfinished.remove()
    return card


def _forecast(arguments: argparse.Namespace, place: Place, settings: TrainSettings) -> str:
    budget = TrainingBudget(arguments.minutes or DEFAULT_MINUTES, arguments.tokens)
    folder = DataFolder(arguments.data_dir)
    found = target_forecast(arguments.kind, place.target, place.sha256, folder, budget, settings)
    return NOT_MEASURED if found is None else found.sentence


def _collected(
    arguments: argparse.Namespace,
    place: Place,
    settings: CollectSettings,
    budget: Budget | None,
    unfinished: Unfinished,
    output: TrainOutput,
) -> int:
    """Collects what this training needs; returns how many shards it learns from."""
    progress = unfinished.read()
    if progress.shards is not None:
        return progress.shards
    if budget is not None:
        settings = replace(settings, seconds=budget.collecting - progress.collecting)
    else:
        settings = replace(settings, answer_tokens=_wanted(arguments.tokens, settings, place))
    unfinished.write(progress)
    progress = _collect(arguments, place, settings, progress, unfinished, output)
    shards = len(shard_folders(place.folder))
    if not output.stop.is_set():
        unfinished.write(replace(progress, shards=shards))
    return shards


def _wanted(tokens: int, settings: CollectSettings, place: Place) -> int:
    """Answer tokens of the whole corpus: those asked for, and what is new of the user's own."""
    present = count(place.folder).answer_tokens
    known = {name for note in shard_notes(place.folder) for name in note["id"]}
    return max(tokens, present + min(tokens, new_tokens(settings, known)))


def _collect(
    arguments: argparse.Namespace,
    place: Place,
    settings: CollectSettings,
    before: Progress,
    unfinished: Unfinished,
    output: TrainOutput,
) -> Progress:
    """Notes the time it takes, so that it is not spent again after an interruption."""
    if count(place.folder).answer_tokens >= settings.answer_tokens:
        return before
    if settings.seconds is not None and settings.seconds <= 0:
        return before
    started = noted = time.monotonic()

    def note() -> Progress:
        nonlocal noted
        noted = time.monotonic()
        progress = replace(before, collecting=before.collecting + noted - started)
        unfinished.write(progress)
        return progress

    def hear() -> None:
        if time.monotonic() - noted >= _NOTED_SECONDS:
            note()

    gather(arguments, place, settings, output, hear)
    return note()
