"""`start.py`: set up, fetch the starter model, then open the page or run the tests."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from setup.environment import Environment
from setup.errors import SetupError

ROOT = Path(__file__).resolve().parent.parent
INTERRUPTED = 130
GATES = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
)


@dataclass(frozen=True, slots=True)
class Options:
    """passed: what goes on to the page's command, or to pytest with --test."""

    test: bool
    setup_only: bool
    passed: tuple[str, ...]

    @property
    def data_dir(self) -> tuple[str, ...]:
        """--data-dir as it was given for the page: models are fetched into the same folder."""
        for index, word in enumerate(self.passed):
            if word == "--data-dir":
                return self.passed[index : index + 2]
            if word.startswith("--data-dir="):
                return (word,)
        return ()


def parse(argv: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="start.py",
        description="Sets Forerun up and opens its page in the browser.",
        epilog="Everything else goes to the page (--port, --host, --no-browser, --data-dir), "
        "or after -- to pytest.",
        allow_abbrev=False,
    )
    parser.add_argument("--test", action="store_true", help="run the checks and tests instead")
    parser.add_argument("--setup-only", action="store_true", help="set up, start nothing")
    words = list(argv)
    split = words.index("--") if "--" in words else len(words)
    known, passed = parser.parse_known_args(words[:split])
    if known.test and passed:
        parser.error(f"unknown with --test: {' '.join(passed)} (pytest's options go after --)")
    return Options(known.test, known.setup_only, (*passed, *words[split + 1 :]))


def main(argv: Sequence[str]) -> int:
    options = parse(argv)
    environment = Environment(ROOT)
    try:
        environment.ensure(("test", "train") if options.test else ())
        fetched = fetch_starter(environment, () if options.test else options.data_dir)
        if options.test:
            return run_tests(environment, options.passed) if fetched else 1
        if options.setup_only:
            return 0 if fetched else 1
        return run([str(environment.forerun), *options.passed])
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"\nThe set-up failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Start again to continue.", file=sys.stderr)
        return INTERRUPTED


def fetch_starter(environment: Environment, data_dir: Sequence[str]) -> bool:
    """The first model, skipped when it is there. Without it the page still works."""
    command = [str(environment.forerun), "models", "fetch", "starter", *data_dir]
    if run(command, output=subprocess.DEVNULL) == 0:  # its progress is on stderr
        return True
    print("The starter model could not be fetched (see above); the page can fetch it later.")
    return False


def run_tests(environment: Environment, pytest_options: Sequence[str]) -> int:
    """The gates, cheapest first; stops at the first that fails."""
    for gate in (*GATES, ("pytest", *pytest_options)):
        print(f"\n> {' '.join(gate)}", flush=True)
        if code := run([str(environment.python), "-m", *gate], ROOT):
            return code
    return 0


def run(command: Sequence[str], folder: Path | None = None, output: int | None = None) -> int:
    """As if started directly: same terminal, same signals, same exit code.

    output: where stdout goes, as in subprocess.
    """
    process = subprocess.Popen(command, cwd=folder, stdout=output)

    def stop(_number: int, _frame: FrameType | None) -> None:
        process.terminate()

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        while True:
            try:
                code = process.wait()
                return code if code >= 0 else 128 - code  # ended by a signal: as shells report it
            except KeyboardInterrupt:
                continue  # the terminal has sent it to the command too, which ends in its own way
    finally:
        signal.signal(signal.SIGTERM, previous)
