"""The command line's frame: exit codes, one-line errors, global options."""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.cli import BROKEN_PIPE, COMMANDS, INTERRUPTED, command_names, main
from engine.cli.parser import Subparsers
from engine.data.errors import ERROR_KINDS, BadOptionError, EngineError, RequestError

ROOT = Path(__file__).resolve().parents[2]


class ScriptedCommand:
    """A command `act` that does what the test says, with a nested command `act deeper`."""

    __name__ = "scripted.act"

    def __init__(self, action: Callable[[argparse.Namespace], int]) -> None:
        self._action = action

    def add_parser(self, subparsers: Subparsers) -> None:
        parser = subparsers.add_parser("act")
        parser.set_defaults(func=self._action)
        parser.add_argument("--size", type=int, default=1)
        deeper = parser.add_subparsers().add_parser("deeper")
        deeper.set_defaults(func=self._action)


def raising(error: BaseException) -> ScriptedCommand:
    def act(_arguments: argparse.Namespace) -> int:
        raise error

    return ScriptedCommand(act)


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """`main` sets up logging for a process of its own; here it must leave no trace."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def run_python(arguments: list[str], **changes: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **changes}
    command = [sys.executable, "-m", "engine.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


@pytest.mark.parametrize("kind", ERROR_KINDS.values(), ids=lambda kind: kind.__name__)
def test_engine_errors_become_one_line_and_their_exit_code(
    kind: type[EngineError], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["act"], [raising(kind("the file is\nbroken: fetch it again"))])
    captured = capsys.readouterr()
    assert code == (2 if issubclass(kind, RequestError) else 1)
    assert captured.err == "forerun: the file is broken: fetch it again\n"
    assert captured.out == ""


def test_the_command_decides_the_exit_code() -> None:
    assert main(["act"], [ScriptedCommand(lambda arguments: 0)]) == 0
    assert main(["act"], [ScriptedCommand(lambda arguments: 1)]) == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "COMMAND"),
        (["nonsense"], "nonsense"),
        (["act", "--size"], "--size"),
        (["act", "--size", "many"], "many"),
        (["act", "--colour"], "--colour"),
        (["act", "--siz=3"], "--siz"),
    ],
)
def test_wrong_arguments_are_one_line_with_exit_code_2(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv, [ScriptedCommand(lambda arguments: 0)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("forerun: ")
    assert said in captured.err
    assert "--help" in captured.err


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["act", "--help"], [ScriptedCommand(lambda arguments: 1)]) == 0
    assert "--data-dir" in capsys.readouterr().out


def test_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["act"], [raising(KeyboardInterrupt())]) == INTERRUPTED
    assert capsys.readouterr().err == "forerun: interrupted\n"


def test_unexpected_errors_have_no_traceback_unless_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [raising(ZeroDivisionError("a bug"))]
    monkeypatch.delenv("FORERUN_DEBUG", raising=False)
    assert main(["act"], commands) == 1
    silent = capsys.readouterr().err
    assert silent.count("\n") == 1
    assert "ZeroDivisionError" in silent
    monkeypatch.setenv("FORERUN_DEBUG", "1")
    assert main(["act"], commands) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["--data-dir", "here", "--verbose", "act"],
        ["act", "--data-dir", "here", "--verbose"],
        ["--data-dir", "here", "act", "--verbose"],
        ["act", "deeper", "--verbose", "--data-dir", "here"],
    ],
)
def test_global_options_are_accepted_at_every_level(argv: list[str]) -> None:
    seen: list[argparse.Namespace] = []

    def act(arguments: argparse.Namespace) -> int:
        seen.append(arguments)
        return 0

    assert main(argv, [ScriptedCommand(act)]) == 0
    assert seen[0].data_dir == Path("here").resolve()
    assert seen[0].verbose is True


def test_the_data_folder_without_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[argparse.Namespace] = []

    def act(arguments: argparse.Namespace) -> int:
        seen.append(arguments)
        return 0

    monkeypatch.setenv("FORERUN_DATA_DIR", str(tmp_path))
    assert main(["act"], [ScriptedCommand(act)]) == 0
    assert seen[0].data_dir == tmp_path.resolve()
    assert seen[0].verbose is False


def test_every_command_is_known_by_its_first_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(command_names()) == len(COMMANDS)
    for name in command_names():
        assert main([name, "--help"], COMMANDS) == 0
        assert capsys.readouterr().out.startswith(f"usage: forerun {name}")


def test_a_real_process_reports_one_line() -> None:
    done = run_python(["doctor", "--nonsense"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "--nonsense" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="pipes close differently there")
def test_a_reader_that_leaves_is_no_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "engine.cli", "doctor", "--data-dir", str(tmp_path)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, b"")


def test_doctor_as_json(tmp_path: Path) -> None:
    done = run_python(["doctor", "--json", "--data-dir", str(tmp_path / "new")])
    report = json.loads(done.stdout)
    levels = {check["name"]: check["level"] for check in report["checks"]}
    assert {"python", "packages", "processor", "memory", "data folder", "disk"} <= set(levels)
    assert levels["engine"] == "ok"
    assert levels["models"] == "warn"  # a new folder has none
    assert "network" not in levels  # asks nobody without --online
    assert report["ok"] == ("fail" not in levels.values())
    assert done.returncode == (0 if report["ok"] else 1)
    assert all(check["advice"] for check in report["checks"] if check["level"] != "ok")


def test_doctor_reports_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = run_python(["doctor", "--data-dir", str(tmp_path / "file")])
    assert done.returncode == 1
    assert "fail  data folder" in done.stdout
    assert "--data-dir" in done.stdout
    assert done.stderr == ""


def test_bad_option_is_a_request_error() -> None:
    assert BadOptionError.exit_code == 2


def test_typical_acceptance_and_strict_numerics_exclude_each_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["generate", "--target", "starter", "--prompt", "x", "--data-dir", str(tmp_path)]
    for other in (["--numerics", "strict"], ["--coupling", "seed"]):
        assert main([*command, "--acceptance", "typical", *other]) == 2
        assert "changes the text" in capsys.readouterr().err
