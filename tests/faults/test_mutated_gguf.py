"""Damaged model files through header, load and reply: an error of ours, or at worst the end of the
engine's process, which the page outlives. Never another exception, and nothing hangs."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.mutated_gguf import header_bytes, mutated
from tests.tiny_gguf import write_tiny_gguf

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0
"""For one file, the start of the process included."""


class Campaign:
    """Runs the process again where it died; what it says of each file is counted."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.source = write_tiny_gguf(folder / "source.gguf")
        self.outcomes: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self._folder = folder
        self._seed = seed

    def run(self, count: int) -> None:
        first = 0
        while first < count:
            first = self._run_from(first, count - first)

    def _run_from(self, first: int, count: int) -> int:
        """The number to go on with."""
        command = [sys.executable, "-m", "tests.faults.mutated_gguf", str(self.source)]
        command += [str(self._folder), str(self._seed), str(first), str(count)]
        errors = self._folder / "errors.txt"
        with (
            errors.open("wb") as output,
            subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=output,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            ) as process,
        ):
            number = first - 1
            for line in _lines(process):
                word, told, *outcome = line.split(maxsplit=2)
                number = int(told)
                if word == "end":
                    self.outcomes[outcome[0]] += 1
                    number += 1
            if number < first:
                raise AssertionError(errors.read_text(errors="replace")[-2000:])
            if number == first + count:
                return number
            code = process.wait()
            self.outcomes[f"the process ended ({'hung' if code == -9 else code})"] += 1
            text = errors.read_text(errors="replace")
            if code == -9 or "Traceback" in text:
                self.unexpected.append(f"{number}: {text[-600:]}")
            return number + 1


def _lines(process: subprocess.Popen[bytes]) -> list[str]:
    """To its end; it is killed when it says nothing for too long."""
    assert process.stdout is not None
    found = b""
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not ready.select(SECONDS):
                process.kill()
                break
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                break
            found += piece
    whole = [line for line in found.decode().split("\n") if line.startswith(("begin ", "end "))]
    return whole


def test_some_damaged_files(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, 1)
    campaign.run(60)
    assert campaign.unexpected == []
    assert sum(campaign.outcomes.values()) == 60


@pytest.mark.slow
def test_many_damaged_files(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, 2)
    campaign.run(3_200)
    print(f"damaged files: {sum(campaign.outcomes.values()):,}")
    for outcome, count in campaign.outcomes.most_common():
        print(f"  {count:5,}  {outcome}")
    assert campaign.unexpected == []


def test_the_changes_are_the_same_again(tmp_path: Path) -> None:
    source = write_tiny_gguf(tmp_path / "source.gguf")
    content, header = source.read_bytes(), header_bytes(source)
    made = [mutated(content, header, 1, number) for number in range(40)]
    assert made == [mutated(content, header, 1, number) for number in range(40)]
    assert len({*made, content}) > 35
