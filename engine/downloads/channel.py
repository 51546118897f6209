"""A download child's side of the pipe, and the check that every downloaded file must pass."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TextIO

from engine.data.errors import DownloadError, ModelFileError
from engine.downloads.transfer import GO, DownloadEvent
from engine.files.gguf import inspect

_EVENT_SECONDS = 0.2
_HASH_CHUNK = 1 << 22


class Channel:
    """The pipe to the parent process."""

    def __init__(self, incoming: TextIO, outgoing: TextIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._last = 0.0

    def tell(self, event: DownloadEvent) -> None:
        self._outgoing.write(event.to_line() + "\n")
        self._outgoing.flush()

    def note(self, message: str) -> None:
        self.tell(DownloadEvent("note", message=message))

    def progress(self, done: int, total: int) -> None:
        """Throttled; safe to call for every chunk."""
        self._tell_sometimes(DownloadEvent("progress", done, total))

    def ask_space(self, total: int, folder: Path) -> None:
        """Wait until the parent has found room for `total` bytes in `folder`."""
        self.tell(DownloadEvent("size", total=total, path=str(folder)))
        if self._incoming.readline().strip() != GO:
            raise SystemExit(1)  # the parent has refused, or is gone

    def checksum(self, path: Path) -> str:
        """SHA-256 of the file, with progress."""
        digest, done, total = hashlib.sha256(), 0, path.stat().st_size
        with path.open("rb") as file:
            while chunk := file.read(_HASH_CHUNK):
                digest.update(chunk)
                done += len(chunk)
                self._tell_sometimes(DownloadEvent("checking", done, total))
        return digest.hexdigest()

    def _tell_sometimes(self, event: DownloadEvent) -> None:
        now = time.monotonic()
        if now - self._last >= _EVENT_SECONDS or event.bytes == event.total:
            self._last = now
            self.tell(event)


def check_file(path: Path, sha256: str | None, channel: Channel) -> None:
    """Raise DownloadError unless the file is whole: checksum if known, and a GGUF in any case."""
    if sha256 is not None and channel.checksum(path) != sha256:
        raise DownloadError("the checksum of the downloaded file is wrong; try again")
    try:
        inspect(path)
    except ModelFileError as error:
        raise DownloadError(f"the downloaded file is not usable: {error}") from error
