"""One page owns a data folder: a lock that ends with its process, a note of where it listens."""

from __future__ import annotations

import http.client
import json
import os
import time
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

from engine.data.errors import BadOptionError
from engine.data.folders import DataFolder
from engine.files.disk import write_atomically
from engine.files.file_lock import FileLock

WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.2
_ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RunningPage:
    """address: empty while it starts."""

    pid: int
    address: str = ""


class Ownership:
    """Of one data folder, from a successful `take` to `close`."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._lock = FileLock(folder.page_lock)

    def take(self, seconds: float = WAIT_SECONDS) -> RunningPage | None:
        """None when the folder is ours now, else the page that has it and answers.

        A page that is starting or ending gets a while; BadOptionError when it does not answer
        then. A lock whose process has ended is no lock.
        """
        deadline = time.monotonic() + seconds
        while not self._lock.take():
            page = _noted(self._folder)
            if page is not None and page.address and answers(page.address):
                return page
            if time.monotonic() > deadline:
                raise BadOptionError(_unanswered(self._folder, page))
            time.sleep(_POLL_SECONDS)
        self._note(RunningPage(os.getpid()))
        return None

    def listens(self, address: str) -> None:
        """The page is there from now on; raises OSError."""
        self._note(RunningPage(os.getpid(), address))

    def close(self) -> None:
        """What the next start reads must not lead it to whoever gets our port. Harmless twice."""
        self._folder.page_note.unlink(missing_ok=True)
        self._lock.close()

    def _note(self, page: RunningPage) -> None:
        write_atomically(self._folder.page_note, json.dumps(asdict(page)) + "\n")


def answers(address: str) -> bool:
    """Whether a Forerun page listens there, asked as its own browser page would."""
    try:
        place = urlsplit(address)
        host, port = place.hostname, place.port
    except ValueError:
        return False
    if place.scheme != "http" or not host or not port:
        return False
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        health: Any = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return answer.status == 200 and isinstance(health, dict) and "drafters" in health


def _noted(folder: DataFolder) -> RunningPage | None:
    """What the owner wrote, None before it has, or when it is damaged."""
    try:
        content: Any = json.loads(folder.page_note.read_text(encoding="utf-8"))
        return RunningPage(int(content["pid"]), str(content["address"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _unanswered(folder: DataFolder, page: RunningPage | None) -> str:
    if page is not None and not page.address:
        return (
            f"process {page.pid} starts with the data folder {folder.root} and is not ready yet, "
            "as when it recovers damaged chats: start again in a minute, or choose another "
            "--data-dir"
        )
    who = "another process" if page is None else f"process {page.pid}"
    where = f" at {page.address}" if page is not None and page.address else ""
    return (
        f"{who} has the data folder {folder.root}, but its page{where} does not answer: "
        "end that process and start again, or choose another --data-dir"
    )
