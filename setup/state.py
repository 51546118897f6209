"""What a virtual environment was set up with, and what therefore has to be done at a start."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from setup.errors import SetupError

Action = Literal["ready", "update", "create"]


@dataclass(frozen=True, slots=True)
class State:
    """Written into the environment. complete is False while an installation runs.

    base: what an environment cannot change later (the Python, the checkout's place).
    """

    base: str
    cmake_args: str
    pyproject: str
    extras: tuple[str, ...]
    complete: bool


def wanted_state(root: Path, extras: tuple[str, ...], cmake_args: str) -> State:
    """What this start needs. cmake_args: how llama.cpp is to be built."""
    python = f"{sys.base_prefix} {sys.version_info.major}.{sys.version_info.minor}"
    return State(
        base=f"{python} {root}",
        cmake_args=cmake_args,
        pyproject=hashlib.sha256((root / "pyproject.toml").read_bytes()).hexdigest(),
        extras=extras,
        complete=True,
    )


def decide(found: State | None, wanted: State, python_exists: bool) -> Action:
    """An environment without a state is somebody's own: it is installed into, never deleted."""
    if not python_exists:
        return "create"
    if found is None:
        return "update"
    if not found.complete or found.base != wanted.base or found.cmake_args != wanted.cmake_args:
        return "create"
    if found.pyproject != wanted.pyproject or not set(wanted.extras) <= set(found.extras):
        return "update"
    return "ready"


def with_extras_of(wanted: State, found: State | None) -> State:
    """Extras that are already there stay up to date."""
    old = found.extras if found else ()
    return replace(wanted, extras=tuple(sorted({*wanted.extras, *old})))


def remembered_cmake_args(found: State | None, given: str | None) -> str:
    """A GPU build stays one at the next start, without giving CMAKE_ARGS again."""
    if given is not None:
        return given.strip()
    return found.cmake_args if found else ""


def read_state(path: Path) -> State | None:
    """None if there is none; an unreadable one counts as an interrupted set-up."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return State(**{**data, "extras": tuple(data["extras"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return State("", "", "", (), complete=False)


def write_state(path: Path, state: State) -> None:
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    os.replace(partial, path)


def pinned(root: Path, package: str) -> str:
    """The requirement of this package in pyproject.toml, for instance `numpy>=2.0,<3`."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        if str(requirement).startswith(package):
            return str(requirement)
    raise SetupError(f"pyproject.toml does not ask for {package}: the checkout is damaged")
