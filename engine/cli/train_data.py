"""The data side of `forerun train`: which corpus, its options, collecting what is missing."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.cli.numbers import above_zero, whole
from engine.cli.parser import CommandParser
from engine.cli.train_output import TrainOutput
from engine.data.folders import DataFolder
from engine.files.disk import size_text, user_path
from engine.models.catalogue import Catalogue
from engine.models.locate import LocatedModel, locate
from engine.models.trained import model_sha256
from engine.train.corpus.collection import CollectReport, collect, corpus_folder, prepare
from engine.train.corpus.prompt_files import prompt_count
from engine.train.corpus.settings import CollectSettings, read_card
from engine.train.corpus.sources import chat_items, text_files
from engine.train.trainable import require_target

NO_LIMIT = 10**12


@dataclass(frozen=True, slots=True)
class Place:
    """The target and where its corpus is."""

    target: LocatedModel
    sha256: str
    folder: Path

    @property
    def name(self) -> str:
        """Of the target, as files are named after it."""
        return self.folder.name.rpartition("-")[0]


def add_target(parser: CommandParser) -> None:
    parser.add_argument("--target", required=True, metavar="M", help="catalogue id or GGUF path")


def add_data_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("data")
    group.add_argument(
        "--text", nargs="+", default=[], metavar="PATH", help="your own text: files or folders"
    )
    group.add_argument(
        "--prompts",
        nargs="+",
        default=[],
        metavar="FILE",
        help="your own prompts: JSON Lines (turns, prompt, question, instruction) or lines of text",
    )
    group.add_argument("--chats", action="store_true", help="your own chats as prompts, too")
    group.add_argument("--minutes", type=above_zero, metavar="N", help="time for everything")
    group.add_argument("--tokens", type=whole(1), metavar="N", help="answer tokens to learn from")
    group.add_argument(
        "--threads", type=whole(0, 1024), default=0, metavar="N", help="0: physical cores"
    )
    group.add_argument("--gpu-layers", type=whole(-1), default=-1, metavar="N", help="-1: all")
    group.add_argument("--seed", type=whole(0), default=0, metavar="S")
    group.add_argument("--json", action="store_true", help="progress as one JSON object a line")


def find_place(arguments: argparse.Namespace) -> Place:
    folder = DataFolder(arguments.data_dir)
    target = locate(arguments.target, Catalogue.load(folder), folder)
    require_target(target.path)
    sha256 = model_sha256(target.path, folder)
    return Place(target, sha256, corpus_folder(folder.training, target, sha256))


def collect_settings(
    arguments: argparse.Namespace, place: Place, tokens: int, seconds: float | None
) -> CollectSettings:
    folder = DataFolder(arguments.data_dir)
    text_files(arguments.text)  # says at once what is wrong with them
    for path in arguments.prompts:
        prompt_count(path)
    if arguments.chats:
        next(chat_items(folder.conversations_file))
    card = read_card(place.folder)
    return CollectSettings(
        folder=str(place.folder),
        target=str(place.target.path),
        answer_tokens=tokens,
        seconds=seconds,
        gpu_layers=arguments.gpu_layers,
        seed=arguments.seed if card is None else card.seed,
        text=tuple(map(_absolute, arguments.text)),
        prompts=tuple(map(_absolute, arguments.prompts)),
        chats=str(folder.conversations_file) if arguments.chats else "",
        derived=str(folder.derived),
    )


def _absolute(path: str) -> str:
    return str(user_path(path).absolute())


def gather(
    arguments: argparse.Namespace,
    place: Place,
    settings: CollectSettings,
    output: TrainOutput,
    hear: Callable[[], None] = lambda: None,
) -> None:
    """Collects; what is there already counts. hear: called at every progress."""

    def collected(report: CollectReport) -> None:
        output.collected(report)
        hear()

    output.say("finding out which weights say most here, which may make a copy of them once")
    threads, stop = arguments.threads, output.stop.is_set
    prepared = prepare(settings, place.target, place.sha256, threads, stop)
    if prepared is None:
        return
    more = size_text(int(prepared.needed))
    output.say(f"this will take at most {more} more in {place.folder}")
    pace = f"up to {prepared.tokens_per_second:,.0f} tokens a second"
    output.say(f"generating with {prepared.weights}, {pace}")
    collect(prepared, collected, stop)
