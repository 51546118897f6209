"""`forerun doctor`: is everything here that Forerun needs?"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import psutil
from huggingface_hub import constants

from engine import doctor
from engine.doctor import Check
from engine.machine import processor

if TYPE_CHECKING:
    from engine.cli.parser import CommandParser


def add_parser(subparsers: argparse._SubParsersAction[CommandParser]) -> None:
    parser = subparsers.add_parser("doctor", description="Check this machine and installation.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--online", action="store_true", help="also ask whether the Hub answers")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    checks = list(_checks(arguments.data_dir, arguments.online))
    bad = doctor.failed(checks)
    if arguments.json:
        rows = [dataclasses.asdict(check) for check in checks]
        print(json.dumps({"ok": not bad, "checks": rows}, indent=2))
    else:
        print("\n".join(_lines(checks)))
    return 1 if bad else 0


def _checks(folder: Path, online: bool) -> Iterator[Check]:
    memory = psutil.virtual_memory()
    yield doctor.check_python()
    yield doctor.check_packages()
    yield doctor.check_processor(processor())
    yield doctor.check_memory(memory.available, memory.total)
    yield doctor.check_data_folder(folder)
    yield doctor.check_disk(folder)
    if online:
        yield doctor.check_online(_ask_hub)


def _ask_hub() -> str:
    with urlopen(constants.ENDPOINT, timeout=10) as answer:
        return f"the Hub answers ({answer.status})"


def _lines(checks: list[Check]) -> Iterator[str]:
    width = max(len(check.name) for check in checks)
    for check in checks:
        yield f"{check.level:<4}  {check.name:<{width}}  {check.detail}"
        if check.advice:
            yield f"{'':<4}  {'':<{width}}  -> {check.advice}"
