"""The GGUF files of a Hub repository, asked for in a child process like every download."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from engine.data.errors import DownloadError, RequestError
from engine.downloads.process import events, open_child
from engine.downloads.transfer import RepoFile, error_of

_IDLE_SECONDS = 30.0
"""Without an answer: the Hub's own limit for one is ten seconds."""
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def list_files(repo: str, revision: str = "main") -> tuple[RepoFile, ...]:
    """Names, sizes and quantisations, for the user to choose from; blocks up to some seconds.

    Raises RequestError (not owner/name), DownloadError, GatedModelError.
    """
    if not _REPOSITORY.fullmatch(repo):
        raise RequestError(f"{repo!r} is not a repository of the Hub; write owner/name")
    with tempfile.TemporaryDirectory(prefix="forerun-") as folder:
        log = Path(folder) / "child.log"
        with open_child("hub_list_child", log, _IDLE_SECONDS) as child:
            child.send(json.dumps({"repo": repo, "revision": revision}))
            event = next(iter(events(child)))
    if event.event == "failed":
        raise error_of(event)
    try:
        return tuple(RepoFile(**row) for row in json.loads(event.message))
    except (ValueError, TypeError) as error:
        raise DownloadError("the list of files came back damaged; try again") from error
