"""`forerun train curve`: what more data would bring, from trainings on parts of a corpus."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from engine.cli.numbers import above_zero, whole
from engine.cli.parser import Subparsers
from engine.cli.train_data import Place, add_target, find_place
from engine.cli.train_output import StopFlag, TrainOutput
from engine.data.errors import BadOptionError
from engine.data.machine import physical_cores
from engine.train.corpus.shards import count
from engine.train.fitting import fit, require_torch
from engine.train.trainable import obstacle, require_trainable
from engine.train.training import HeadKind, TrainRequest, TrainSettings

KINDS: tuple[HeadKind, ...] = ("medusa", "eagle3", "early-exit")


def add_parser(kinds: Subparsers) -> None:
    parser = kinds.add_parser(
        "curve",
        description="Held-out acceptance against tokens of data: trains on parts of a corpus that "
        "is there, and keeps only the figures.",
    )
    add_target(parser)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, metavar="KIND", help="default: all")
    parser.add_argument(
        "--tokens",
        nargs="+",
        type=whole(1),
        metavar="N",
        help="default: an eighth, a quarter, ... all",
    )
    parser.add_argument(
        "--minutes", type=above_zero, metavar="N", help="for each training; default: --epochs"
    )
    parser.add_argument("--epochs", type=above_zero, default=2.0, metavar="N")
    parser.add_argument(
        "--threads", type=whole(0, 1024), default=0, metavar="N", help="0: physical cores"
    )
    parser.add_argument("--seed", type=whole(0), default=0, metavar="S")
    parser.add_argument("--output", type=Path, metavar="F.json", help="write all cards there")
    parser.add_argument("--json", action="store_true", help="progress as one JSON object a line")
    parser.set_defaults(func=_run)


def _run(arguments: argparse.Namespace) -> int:
    require_torch()
    place = find_place(arguments)
    counts = count(place.folder)
    learned = counts.answer_tokens - counts.heldout_answer_tokens
    if learned < 1 or not counts.heldout_answer_tokens:
        raise BadOptionError(f"nothing was collected for {place.target.name}; collect first")
    points = sorted({min(n, learned) for n in arguments.tokens or _parts(learned)})
    kinds = _kinds(arguments, place)
    cards: list[dict[str, Any]] = []
    with StopFlag() as stop:
        output = TrainOutput(arguments.json, stop)
        for kind in kinds:
            for tokens in points:
                if stop.is_set():
                    return 1
                cards.append(_point(arguments, place, kind, tokens, output))
                if arguments.output is not None:
                    arguments.output.write_text(json.dumps(cards, indent=2) + "\n")
    if arguments.json:
        print(json.dumps({"done": True, "cards": cards}), flush=True)
    else:
        _show(cards)
    return 0


def _kinds(arguments: argparse.Namespace, place: Place) -> list[HeadKind]:
    """Those asked for, or all that can learn from this target."""
    for kind in arguments.kinds or ():
        require_trainable(kind, place.target.path)
    return arguments.kinds or [kind for kind in KINDS if not obstacle(kind, place.target.path)]


def _parts(learned: int) -> list[int]:
    return [learned // 8, learned // 4, learned // 2, learned]


def _point(
    arguments: argparse.Namespace, place: Place, kind: HeadKind, tokens: int, output: TrainOutput
) -> dict[str, Any]:
    """One training, whose files are thrown away."""
    output.say(f"{kind} on {tokens:,} tokens")
    folder = Path(tempfile.mkdtemp(prefix="curve-", dir=place.folder))
    try:
        request = TrainRequest(
            kind=kind,
            name=str(tokens),
            target=str(place.target.path),
            target_sha256=place.sha256,
            corpus=str(place.folder),
            output=str(folder / "heads"),
            checkpoint="",
            command=shlex.join(["forerun", *sys.argv[1:]]),
            settings=TrainSettings(
                tokens=tokens,
                seconds=None if arguments.minutes is None else 60.0 * arguments.minutes,
                epochs=arguments.epochs,
                threads=arguments.threads or physical_cores(),
                seed=arguments.seed,
            ),
        )
        return fit(request, output.progress, output.stop.is_set)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _show(cards: list[dict[str, Any]]) -> None:
    print(f"{'kind':<12}{'tokens':>12}{'seconds':>9}{'accepted':>10}  held-out hits")
    for card in cards:
        heldout, training = card["heldout"], card["training"]
        hits = " ".join(f"{rate:.3f}" for rate in heldout["hits"])
        print(
            f"{card['kind']:<12}{card['settings']['tokens']:>12,}{training['seconds']:>9.0f}"
            f"{heldout['accepted']:>10.3f}  {hits}"
        )
