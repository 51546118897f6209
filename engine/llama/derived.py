"""Models the engine makes from others, kept in the data folder and made only once."""

from __future__ import annotations

import glob
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.data.errors import BadOptionError, RunError, StopRequested
from engine.files.disk import disk_room, has_ended, size_text
from engine.files.gguf import inspect
from engine.llama.log import NativeLog
from engine.llama.quantize import copy_without_layers, requantize

_POLL_SECONDS = 0.2
_BYTES_PER_WEIGHT = {"F32": 4.0, "F16": 2.0, "BF16": 2.0, "Q8_0": 1.1}
Progress = Callable[[float], None]


def skipped_copy(
    source: Path, layers: int, skip: Sequence[int], folder: Path, log: NativeLog, report: Progress
) -> Path:
    """The model without the layers in `skip`, made now if it is not there yet."""
    if not skip or any(not 0 <= layer < layers for layer in skip) or len(skip) >= layers:
        raise BadOptionError(
            f"layers to skip must be a few of 0 to {layers - 1}, not {'+'.join(map(str, skip))}"
        )
    name = f"skip-{'+'.join(map(str, sorted(skip)))}"
    expected = source.stat().st_size * (layers - len(skip)) / layers
    return _made_once(
        derived_path(source, name, folder),
        expected,
        lambda part: copy_without_layers(source, part, skip, log),
        report,
    )


def requantized_copy(
    source: Path, file_format: str, folder: Path, log: NativeLog, report: Progress
) -> Path:
    """The model with all weights in `file_format`, made now if it is not there yet."""
    return _made_once(
        derived_path(source, file_format, folder),
        requantized_bytes(source, file_format),
        lambda part: requantize(source, part, file_format, log),
        report,
    )


def requantized_bytes(source: Path, file_format: str) -> float:
    """About how large the copy will be; with fewer bits than these about as large as the source."""
    each = _BYTES_PER_WEIGHT.get(file_format)
    return float(source.stat().st_size) if each is None else each * inspect(source).parameters


def derived_path(source: Path, name: str, folder: Path) -> Path:
    """Depends on the source file's identity, so that a replaced file gets a new copy."""
    status = source.stat()
    identity = f"{source.name}:{status.st_size}:{status.st_mtime_ns}"
    mark = hashlib.sha256(identity.encode()).hexdigest()[:8]
    return folder / f"{source.stem}-{mark}-{name}.gguf"


def _made_once(
    path: Path, expected_bytes: float, make: Callable[[Path], None], report: Progress
) -> Path:
    if path.is_file():
        return path
    if disk_room(path.parent) < expected_bytes:
        raise RunError(
            f"{path.name} would need {size_text(int(expected_bytes))} in {path.parent}: "
            "free some space, or choose another --data-dir"
        )
    # Its own name for each process: two may make the same copy at once, and either result is good.
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        _make_watched(part, expected_bytes, make, report)
        _publish(part, path)
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        if part.exists():
            part.unlink()
    return path


def _publish(part: Path, path: Path) -> None:
    try:
        part.replace(path)
    except PermissionError:
        if not path.is_file():  # Windows does not replace what another process has mapped
            raise


def _remove_abandoned(path: Path) -> None:
    """What processes left behind that no longer run."""
    for part in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        owner = part.name.removeprefix(f"{path.name}.").removesuffix(".part")
        if has_ended(owner):
            part.unlink(missing_ok=True)


def _make_watched(
    part: Path, expected_bytes: float, make: Callable[[Path], None], report: Progress
) -> None:
    finished = threading.Event()
    watcher = threading.Thread(
        target=_report_growth, args=(part, expected_bytes, report, finished), daemon=True
    )
    watcher.start()
    try:
        make(part)
    finally:
        finished.set()
        watcher.join()


def _report_growth(
    part: Path, expected_bytes: float, report: Progress, finished: threading.Event
) -> None:
    """llama.cpp does not report progress while it writes, but the file grows."""
    while not finished.wait(_POLL_SECONDS):
        written = part.stat().st_size if part.exists() else 0
        try:
            report(min(1.0, written / expected_bytes))
        except StopRequested:
            return  # llama.cpp cannot be stopped in a copy: this process is ended if that is long
