"""`forerun models convert-eagle3` and `convert-medusa`: published heads as GGUF files."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.cli.parser import Subparsers
from engine.data.errors import BadOptionError, IncompatiblePairError
from engine.data.folders import DataFolder
from engine.files.gguf import GgufInfo, inspect
from engine.files.reference import reference_of
from engine.heads.eagle3_convert import convert_eagle3
from engine.heads.medusa_file import quantised, read_medusa, target_hash, trimmed, write_medusa
from engine.heads.pairing import medusa_obstacle
from engine.models.catalogue import Catalogue
from engine.models.locate import locate

_TARGET_HELP = "the model the heads were trained for: catalogue id or GGUF path"


def add_parsers(subparsers: Subparsers) -> None:
    eagle = subparsers.add_parser(
        "convert-eagle3", description="A published EAGLE-3 folder as a GGUF drafter."
    )
    medusa = subparsers.add_parser(
        "convert-medusa", description="Published Medusa heads as a smaller GGUF file."
    )
    for parser in (eagle, medusa):
        parser.add_argument("source", type=Path, help="folder with the checkpoint")
        parser.add_argument("--target", required=True, metavar="M", help=_TARGET_HELP)
        parser.add_argument(
            "--output", type=Path, metavar="F.gguf", help="default: with the other models"
        )
    medusa.add_argument(
        "--first-tokens", type=int, metavar="N", help="keep only token ids below N: smaller, faster"
    )
    eagle.set_defaults(func=_convert_eagle3)
    medusa.set_defaults(func=_convert_medusa)


def _convert_eagle3(arguments: argparse.Namespace) -> int:
    target, output = _places(arguments, "eagle3")
    convert_eagle3(arguments.source, target, output)
    print(reference_of(output))
    return 0


def _convert_medusa(arguments: argparse.Namespace) -> int:
    target, output = _places(arguments, "medusa")
    heads = read_medusa(arguments.source)
    if reason := medusa_obstacle(target, heads):
        raise IncompatiblePairError(f"{arguments.source} cannot draft for {target.name}: {reason}")
    if arguments.first_tokens is not None:
        if not 1 <= arguments.first_tokens <= heads.rows or heads.token_ids is not None:
            raise BadOptionError(f"--first-tokens goes from 1 to {heads.rows:,}")
        heads = trimmed(heads, np.arange(arguments.first_tokens))
    write_medusa(output, quantised(replace(heads, target_hash=target_hash(target))))
    print(reference_of(output))
    return 0


def _places(arguments: argparse.Namespace, kind: str) -> tuple[GgufInfo, Path]:
    """The target's description and the file to write."""
    folder = DataFolder(arguments.data_dir)
    target = inspect(locate(arguments.target, Catalogue.load(folder), folder).path)
    if arguments.output is not None:
        return target, arguments.output
    folder.models.mkdir(parents=True, exist_ok=True)
    return target, folder.models / f"{arguments.source.resolve().name}-{kind}.gguf"
