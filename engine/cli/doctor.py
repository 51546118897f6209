"""`forerun doctor`: is everything here that Forerun needs?"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
from collections.abc import Iterator
from urllib.request import urlopen

import psutil
from huggingface_hub import constants

from engine.cli import diagnosis
from engine.cli.diagnosis import Check
from engine.cli.parser import Subparsers
from engine.data.folders import DataFolder
from engine.data.machine import processor
from engine.data.shown import shown
from engine.models.catalogue import Catalogue
from engine.models.library import known_models
from engine.process.client import EngineClient


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("doctor", description="Check this machine and installation.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--online", action="store_true", help="also ask whether the Hub answers")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    checks = list(_checks(DataFolder(arguments.data_dir), arguments.online))
    bad = diagnosis.failed(checks)
    if arguments.json:
        rows = [dataclasses.asdict(check) for check in checks]
        print(json.dumps({"ok": not bad, "checks": rows}, indent=2))
    else:
        print("\n".join(map(shown, _lines(checks))))
    return 1 if bad else 0


def _checks(folder: DataFolder, online: bool) -> Iterator[Check]:
    memory = psutil.virtual_memory()
    yield diagnosis.check_python()
    yield diagnosis.check_packages()
    yield diagnosis.check_processor(processor())
    yield diagnosis.check_memory(memory.available, memory.total)
    data_folder = diagnosis.check_data_folder(folder.root)
    yield data_folder
    yield diagnosis.check_disk(folder.root)
    yield diagnosis.check_models(lambda: known_models(Catalogue.load(folder), folder))
    if data_folder.level == "ok":  # the engine keeps its log there
        with contextlib.closing(EngineClient(folder)) as client:
            yield diagnosis.check_engine(client.start)
    if online:
        yield diagnosis.check_online(_ask_hub)


def _ask_hub() -> str:
    with urlopen(constants.ENDPOINT, timeout=10) as answer:
        return f"the Hub answers ({answer.status})"


def _lines(checks: list[Check]) -> Iterator[str]:
    width = max(len(check.name) for check in checks)
    for check in checks:
        yield f"{check.level:<4}  {check.name:<{width}}  {check.detail}"
        if check.advice:
            yield f"{'':<4}  {'':<{width}}  -> {check.advice}"
