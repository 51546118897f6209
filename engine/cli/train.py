"""`forerun train`: data from the target, and drafters learned from it."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path

from engine.cli.parser import CommandParser, Subparsers
from engine.cli.train_output import StopFlag, TrainOutput
from engine.errors import BadOptionError
from engine.folders import DataFolder
from engine.models.catalogue import Catalogue
from engine.models.files import size_text
from engine.models.gguf import inspect
from engine.models.locate import LocatedModel, locate
from engine.train.collection import collect, corpus_folder, estimated_bytes, file_sha256, prepare
from engine.train.settings import CollectSettings, read_card
from engine.train.shards import count
from engine.train.sources import text_files

_NO_LIMIT = 10**12


@dataclass(frozen=True, slots=True)
class Place:
    """The target and where its corpus is."""

    target: LocatedModel
    sha256: str
    folder: Path


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "train", description="Learn a drafter for a target from its own answers, on this machine."
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    collecting = kinds.add_parser(
        "collect", description="Only collect answers and features; training goes on from them."
    )
    add_target(collecting)
    add_data_options(collecting)
    collecting.set_defaults(func=_collect)
    deleting = kinds.add_parser("delete", description="Delete what was collected for a target.")
    add_target(deleting)
    deleting.set_defaults(func=_delete)


def add_target(parser: CommandParser) -> None:
    parser.add_argument("--target", required=True, metavar="M", help="catalogue id or GGUF path")


def add_data_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("data")
    group.add_argument(
        "--text", nargs="+", default=[], metavar="PATH", help="your own text: files or folders"
    )
    group.add_argument("--chats", action="store_true", help="your own chats as prompts, too")
    group.add_argument("--minutes", type=float, metavar="N", help="time for everything")
    group.add_argument("--tokens", type=int, metavar="N", help="answer tokens to learn from")
    group.add_argument("--threads", type=int, default=0, metavar="N", help="0: physical cores")
    group.add_argument("--gpu-layers", type=int, default=-1, metavar="N", help="-1: all")
    group.add_argument("--seed", type=int, default=0, metavar="S")
    group.add_argument("--json", action="store_true", help="progress as one JSON object a line")


def find_place(arguments: argparse.Namespace) -> Place:
    folder = DataFolder(arguments.data_dir)
    target = locate(arguments.target, Catalogue.load(folder), folder)
    info = inspect(target.path)
    if info.needs is not None or info.recurrent:
        reason = info.needs or "a recurrent model, for which nothing can draft"
        raise BadOptionError(f"{target.name} cannot be trained for: it is {reason}")
    sha256 = file_sha256(target.path)
    return Place(target, sha256, corpus_folder(folder.training, target, sha256))


def collect_settings(
    arguments: argparse.Namespace, place: Place, tokens: int, seconds: float | None
) -> CollectSettings:
    folder = DataFolder(arguments.data_dir)
    if tokens < 1 or (seconds is not None and seconds <= 0):
        raise BadOptionError("--tokens and --minutes must be above 0")
    text_files(arguments.text)  # says at once what is wrong with them
    card = read_card(place.folder)
    return CollectSettings(
        folder=str(place.folder),
        target=str(place.target.path),
        answer_tokens=tokens,
        seconds=seconds,
        gpu_layers=arguments.gpu_layers,
        seed=arguments.seed if card is None else card.seed,
        text=tuple(str(Path(path).expanduser().absolute()) for path in arguments.text),
        chats=str(folder.conversations_file) if arguments.chats else "",
        derived=str(folder.derived),
    )


def gather(
    arguments: argparse.Namespace, place: Place, settings: CollectSettings, output: TrainOutput
) -> None:
    """Collects; what is there already counts."""
    needed = estimated_bytes(settings, count(place.folder))
    if settings.answer_tokens < _NO_LIMIT:
        output.say(f"the corpus will take about {size_text(int(needed))} more in {place.folder}")
    settings, workers = prepare(settings, place.target, place.sha256, arguments.threads)
    card = read_card(place.folder)
    if card is not None:
        output.say(f"generating with {card.generated_with}: {card.tokens_per_second}")
    collect(settings, workers, output.collected, output.stop.is_set)


def _collect(arguments: argparse.Namespace) -> int:
    place = find_place(arguments)
    if arguments.minutes is None and arguments.tokens is None:
        raise BadOptionError("give --tokens or --minutes")
    tokens = _NO_LIMIT if arguments.tokens is None else arguments.tokens
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
    print(f"removed {place.folder}, {size_text(freed)} freed")
    return 0
