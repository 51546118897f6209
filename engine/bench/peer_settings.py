"""The settings of llama-server that are compared with: a name and arguments each."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engine.data.errors import BadOptionError, RunError

_HELP_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class PeerSetting:
    """needs_drafter: it is given the drafter's model file too."""

    name: str
    arguments: tuple[str, ...]
    needs_drafter: bool = False

    @property
    def file_name(self) -> str:
        return re.sub(r"[^\w.-]+", "-", self.name)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How one generation of the program spells its options."""

    model: tuple[str, ...]
    longest: str
    least_chance: str
    ngram: bool


def peer_settings(binary: Path, *, has_drafter: bool) -> tuple[PeerSetting, ...]:
    """plain, and its drafting as people run it: with the drafter model, and by n-grams.

    The options' names are taken from `--help`; a program without n-gram drafting has no such
    setting. RunError when it cannot be asked.
    """
    dialect = _dialect(_help(binary))
    settings = [PeerSetting("plain", ())]
    if has_drafter:
        for length, chance in ((3, None), (7, None), (7, 0.6)):
            settings.append(_drafter_setting(dialect, length, chance))
    if dialect.ngram:
        for kind in ("ngram-simple", "ngram-mod"):
            settings.append(PeerSetting(kind, ("--spec-type", kind)))
    return tuple(settings)


def parse_peer_setting(text: str) -> PeerSetting:
    """ "NAME=ARGS" of the command line. {draft} in ARGS: the drafter's model file is passed too."""
    name, separator, arguments = text.partition("=")
    if not separator or not name.strip():
        raise BadOptionError(f"--peer-setting {text!r} is not of the form NAME=ARGUMENTS")
    words = shlex.split(arguments)
    needs_drafter = "{draft}" in words
    kept = tuple(word for word in words if word != "{draft}")
    return PeerSetting(name.strip(), kept, needs_drafter)


def _drafter_setting(dialect: _Dialect, length: int, chance: float | None) -> PeerSetting:
    arguments = (*dialect.model, dialect.longest, str(length))
    if chance is not None:
        arguments += (dialect.least_chance, str(chance))
    name = f"draft {length}" + (f" p_min {chance}" if chance else "")
    return PeerSetting(name, arguments, needs_drafter=True)


def _dialect(help_text: str) -> _Dialect:
    def first_of(*names: str) -> str:
        return next((name for name in names if name in help_text), names[-1])

    return _Dialect(
        model=("--spec-type", "draft-simple") if "draft-simple" in help_text else (),
        longest=first_of("--spec-draft-n-max", "--draft-max"),
        least_chance=first_of("--spec-draft-p-min", "--draft-p-min"),
        ngram="ngram-mod" in help_text,
    )


def _help(binary: Path) -> str:
    try:
        result = subprocess.run(
            [str(binary), "--help"], capture_output=True, timeout=_HELP_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"{binary} cannot be asked for its options: {error}") from error
    return result.stdout.decode("utf-8", errors="replace")
