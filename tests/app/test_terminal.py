"""The page's process as its terminal sees it: what it prints, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.__main__ import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nonsense"], "nonsense"),
        (["--data-dir", "somewhere", "nonsense"], "nonsense"),
        (["--data-dir=somewhere", "--verbose", "models", "nonsense"], "nonsense"),
        (["--prot", "1"], "--prot"),
        (["--port", "many"], "many"),
        (["--port", "99999"], "65535"),
    ],
)
def test_wrong_arguments_are_one_line(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("forerun: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently there")
def test_interrupting_the_page_ends_both_processes_quietly(tmp_path: Path) -> None:
    """The signal goes to the whole group, as a terminal's Ctrl+C does."""
    command = [sys.executable, "-m", "app", "--no-browser", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == ""  # ends when nobody holds the pipe: the engine has gone
        assert process.wait() == 0
