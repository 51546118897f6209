"""Checks of this installation and machine: what works, what does not, what to do about it."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import psutil
from packaging.requirements import Requirement

from engine.data.errors import EngineError
from engine.data.machine import Processor
from engine.models.library import KnownModel
from engine.process.messages import Ready

Level = Literal["ok", "warn", "fail"]
GIB = 2**30
MIN_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. advice: what to do, empty when the level is ok."""

    name: str
    level: Level
    detail: str
    advice: str = ""


def failed(checks: Iterable[Check]) -> bool:
    return any(check.level == "fail" for check in checks)


def check_python(version: tuple[int, int, int] = sys.version_info[:3]) -> Check:
    detail = f"{'.'.join(map(str, version))} on {platform.platform()}"
    if version < MIN_PYTHON:
        return Check("python", "fail", detail, "install Python 3.11 or newer")
    return Check("python", "ok", detail)


def check_processor(found: Processor) -> Check:
    flags = " ".join(found.flags) or "instruction sets not reported by this system"
    detail = f"{found.model}, {found.usable_cores} usable of {found.physical_cores} cores, {flags}"
    if found.usable_cores < 2:
        return Check("processor", "warn", detail, "one core: expect a few tokens a second at best")
    return Check("processor", "ok", detail)


def check_memory(available: int, total: int) -> Check:
    """Sizes in bytes."""
    detail = f"{available / GIB:.1f} of {total / GIB:.1f} GiB free"
    if available < GIB:
        return Check("memory", "warn", detail, "close other programs: only tiny models will load")
    return Check("memory", "ok", detail)


def check_disk(folder: Path) -> Check:
    free = psutil.disk_usage(str(_existing(folder))).free
    detail = f"{free / GIB:.1f} GiB free for {folder}"
    if free < GIB // 4:
        return Check("disk", "fail", detail, "free some space, or choose another --data-dir")
    if free < 4 * GIB:
        return Check("disk", "warn", detail, "models take 0.1 to 10 GiB each")
    return Check("disk", "ok", detail)


def check_data_folder(folder: Path) -> Check:
    """Writes a temporary file where the folder is or would be created."""
    base = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=base):
            pass
    except OSError as error:
        reason = error.strerror or "not writable"
        return Check("data folder", "fail", f"{base}: {reason}", "choose another with --data-dir")
    return Check("data folder", "ok", f"{folder}{'' if base == folder else ' (not created yet)'}")


def check_packages(
    installed: Callable[[str], str] = metadata.version,
    required: Callable[[str], list[str] | None] = metadata.requires,
) -> Check:
    """Installed versions against the versions this project asks for."""
    again = "run the start script again"
    try:
        wanted = [Requirement(line) for line in required("forerun") or []]
    except metadata.PackageNotFoundError:
        return Check("packages", "fail", "forerun is not installed", again)
    wanted = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = [problem for one in wanted if (problem := _package_problem(one, installed))]
    if wrong:
        return Check("packages", "fail", "; ".join(wrong), again)
    return Check("packages", "ok", f"{len(wanted)} packages as required")


def _package_problem(wanted: Requirement, installed: Callable[[str], str]) -> str:
    try:
        version = installed(wanted.name)
    except metadata.PackageNotFoundError:
        return f"{wanted.name} is missing"
    if wanted.specifier.contains(version, prereleases=True):
        return ""
    return f"{wanted.name} is {version}, not {wanted.specifier}"


def check_models(list_models: Callable[[], Sequence[KnownModel]]) -> Check:
    """list_models: the catalogue with what is on disk; raises EngineError if it is not readable."""
    try:
        models = list_models()
    except EngineError as error:
        return Check("models", "fail", str(error), "correct the file that the message names")
    present = [model.id for model in models if model.path is not None and not model.problem]
    broken = [f"{model.id} ({model.problem})" for model in models if model.problem]
    detail = f"{len(present)} of {len(models)} on this machine"
    if present:
        detail += f": {', '.join(present)}"
    if broken:
        detail += f"; unusable: {', '.join(broken)}"
        return Check("models", "warn", detail, "fetch or copy these again")
    if not present:
        return Check("models", "warn", detail, "forerun models fetch starter")
    return Check("models", "ok", detail)


def check_engine(start: Callable[[], Ready]) -> Check:
    """Starts an engine process: proves that llama.cpp loads, and shows what it offers."""
    try:
        ready = start()
    except EngineError as error:
        return Check("engine", "fail", str(error), "run the start script again")
    missing = [name for name, present in ready.symbols.items() if not present]
    detail = f"llama.cpp {ready.library_version}, {len(ready.symbols) - len(missing)} symbols"
    detail += f", on {' and '.join(map(str, ready.cards)) or 'the CPU'}"
    if missing:
        detail += f", without {', '.join(missing)}"
        return Check("engine", "warn", detail, "features that need these symbols are off")
    return Check("engine", "ok", detail)


def check_online(open_hub: Callable[[], str]) -> Check:
    """open_hub: one request to the Hub; returns its status or raises OSError."""
    try:
        detail = open_hub()
    except OSError as error:
        advice = "models on disk work; the catalogue's first ones also come from the package index"
        return Check("network", "warn", f"the Hub does not answer: {error}", advice)
    return Check("network", "ok", detail)


def _existing(folder: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())
