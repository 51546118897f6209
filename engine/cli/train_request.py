"""The options of `forerun train medusa|eagle3|early-exit`, and the request made of them.

What cannot work is refused here, before anything is collected.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from engine.cli.numbers import above_zero, whole
from engine.cli.parser import CommandParser
from engine.cli.train_data import Place
from engine.data.errors import BadOptionError
from engine.data.folders import DataFolder
from engine.data.machine import physical_cores
from engine.files.gguf import inspect
from engine.train.fitting import free_name, require_device
from engine.train.training import (
    DRAFT_VOCABULARY,
    MOST_POSITIONS,
    NAME,
    HeadKind,
    TrainRequest,
    TrainSettings,
)
from engine.train.unfinished import Unfinished, unfinished_names


def add_training_options(parser: CommandParser, kind: HeadKind) -> None:
    group = parser.add_argument_group("training")
    _add_shape(group, kind)
    group.add_argument(
        "--epochs",
        type=above_zero,
        default=2.0,
        metavar="N",
        help="over the corpus, with --tokens; with --minutes, time decides",
    )
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    group.add_argument(
        "--precision",
        choices=("auto", "float32", "bfloat16"),
        default="auto",
        help="of products in training; auto: bfloat16 where the device multiplies it",
    )
    group.add_argument("--out", metavar="NAME", help="default: the next free number")
    group.add_argument(
        "--resume",
        action="store_true",
        help="go on with a training that was ended, with its options (--out says which)",
    )


def _add_shape(group: argparse._ArgumentGroup, kind: HeadKind) -> None:
    """What the drafter is like."""
    defaults = TrainSettings()
    group.add_argument(
        "--heads" if kind == "medusa" else "--depth",
        dest="positions",
        type=whole(1, MOST_POSITIONS),
        default=defaults.positions,
        metavar="N",
        help="tokens ahead",
    )
    if kind == "early-exit":
        layers = whole(2)
        group.add_argument("--keep-layers", type=layers, default=defaults.keep_layers, metavar="N")
        return
    tokens, usual = whole(*DRAFT_VOCABULARY), defaults.draft_vocabulary
    group.add_argument("--draft-vocab", type=tokens, default=usual, metavar="N")
    group.add_argument("--published", action="store_true", help="also the published layout")
    if kind == "medusa":
        group.add_argument(
            "--own-rows", action="store_true", help="learn output rows too: larger, slower"
        )


def training_request(arguments: argparse.Namespace, place: Place) -> TrainRequest:
    """BadOptionError when it cannot work."""
    kind: HeadKind = arguments.kind
    heads, stem = DataFolder(arguments.data_dir).heads, f"{place.name}-{kind}"
    names = unfinished_names(place.folder, kind)
    name = arguments.out
    if name is None and arguments.resume:
        waiting = [one for one in names if not (heads / f"{stem}-{one}").exists()]
        name = _only(waiting, kind, place)
    name = name or free_name(heads, stem, names)
    if not NAME.fullmatch(name):
        raise BadOptionError("--out may have letters, digits, dots and dashes, at most 40")
    output = heads / f"{stem}-{name}"
    if output.exists():
        raise BadOptionError(f"there is a {kind} drafter {name!r} already; choose another --out")
    return TrainRequest(
        kind=kind,
        name=name,
        target=str(place.target.path),
        target_sha256=place.sha256,
        corpus=str(place.folder),
        output=str(output),
        checkpoint=str(Unfinished(place.folder, kind, name).checkpoint),
        command=shlex.join(["forerun", *sys.argv[1:]]),
        settings=_settings(arguments, place),
        published=kind != "early-exit" and arguments.published,
    )


def _settings(arguments: argparse.Namespace, place: Place) -> TrainSettings:
    kind, defaults = arguments.kind, TrainSettings()
    layers = inspect(place.target.path).block_count
    if kind == "early-exit" and arguments.keep_layers >= layers:
        raise BadOptionError(f"--keep-layers goes from 2 to {layers - 1} for {place.target.name}")
    if arguments.device == "cuda":
        require_device("cuda")
    early_exit = kind == "early-exit"
    return TrainSettings(
        positions=arguments.positions,
        draft_vocabulary=defaults.draft_vocabulary if early_exit else arguments.draft_vocab,
        epochs=arguments.epochs,
        tokens=arguments.tokens,
        seed=arguments.seed,
        threads=arguments.threads or physical_cores(),
        device=arguments.device,
        precision=arguments.precision,
        own_rows=kind == "medusa" and arguments.own_rows,
        keep_layers=arguments.keep_layers if early_exit else defaults.keep_layers,
    )


def _only(names: Sequence[str], kind: HeadKind, place: Place) -> str:
    """The one to go on with."""
    if not names:
        raise BadOptionError(
            f"no {kind} training of {place.target.name} is unfinished; start one without --resume"
        )
    if len(names) > 1:
        raise BadOptionError(f"say with --out which one to go on with: {', '.join(names)}")
    return names[0]
