"""The GGUF files of a Hub repository, asked for in a child process like every download."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from engine.data.errors import RequestError
from engine.downloads.process import ChildProcess
from engine.downloads.transfer import RepoFile, error_of

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def list_files(repo: str, revision: str = "main") -> tuple[RepoFile, ...]:
    """Names, sizes and quantisations, for the user to choose from; blocks up to some seconds.

    Raises RequestError (not owner/name), DownloadError, GatedModelError.
    """
    if not _REPOSITORY.fullmatch(repo):
        raise RequestError(f"{repo!r} is not a repository of the Hub; write owner/name")
    with tempfile.TemporaryDirectory(prefix="forerun-") as folder:
        log = Path(folder) / "child.log"
        with ChildProcess("hub_list_child", log) as child:
            child.send(json.dumps({"repo": repo, "revision": revision}))
            event = next(iter(child.events()))
    if event.event == "failed":
        raise error_of(event)
    return tuple(RepoFile(**row) for row in json.loads(event.message))
