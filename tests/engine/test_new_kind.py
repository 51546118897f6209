"""What it takes to add a kind of drafter: one new file and one line in the registry."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny_gguf import write_tiny_gguf

ROOT = Path(__file__).resolve().parents[2]
KIND = Path(__file__).with_name("repeat_kind.py")
IMPORT = "from engine.drafters.kinds.repeat import Repeat\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the program to which the kind was added."""
    folder = tmp_path / "checkout"
    for name in ("engine", "app", "assets"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "models.toml", folder)
    shutil.copy(KIND, folder / "engine" / "drafters" / "kinds" / "repeat.py")
    registry = folder / "engine" / "drafters" / "registry.py"
    before = registry.read_text(encoding="utf-8")
    after = before.replace("    Recycle(),\n", "    Recycle(),\n    Repeat(),\n")
    after = after.replace(
        "from engine.drafters.kinds.tli", f"{IMPORT}from engine.drafters.kinds.tli"
    )
    registry.write_text(after, encoding="utf-8")
    diff = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    print("\n".join(diff))
    changed = [line for line in diff if line.startswith(("+", "-")) and line[1] not in "+-"]
    assert changed == [f"+{IMPORT.strip()}", "+    Repeat(),"]
    return folder


def run(checkout: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_one_file_and_one_line_make_a_drafter(checkout: Path, tmp_path: Path) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf")
    words = [
        "-m",
        "app",
        "generate",
        "--target",
        str(target),
        "--prompt",
        "hello",
        "--raw",
        "--json",
    ]
    words += ["--max-tokens", "24", "--numerics", "strict", "--data-dir", str(tmp_path / "data")]
    plain = json.loads(run(checkout, *words))
    drafted = json.loads(
        run(checkout, *words, "--drafter", "first(ngram,repeat)", "--speculate", "always")
    )
    assert drafted["tokens"] == plain["tokens"]
    assert drafted["stats"]["by_drafter"]["repeat"]["proposed"] > 0


def test_the_page_offers_it(checkout: Path) -> None:
    code = (
        "from app.choices import drafter_options\n"
        "options = drafter_options((), None, lambda *_: None)\n"
        "print([option.label for option in options if option.value == 'repeat'])"
    )
    assert run(checkout, "-c", code).strip() == "['Once more']"
