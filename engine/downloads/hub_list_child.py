"""Child process of hub_list: one request on stdin, one event on stdout."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TextIO

from engine.children.speaking import claim_stdout
from engine.data.errors import EngineError
from engine.downloads.hub_fetch import list_hub_files
from engine.downloads.transfer import DownloadEvent, failure


def main(incoming: TextIO, outgoing: TextIO) -> int:
    request = json.loads(incoming.readline())
    try:
        files = list_hub_files(request["repo"], request["revision"])
    except EngineError as error:
        event = failure(error)
    else:
        event = DownloadEvent("done", message=json.dumps([asdict(file) for file in files]))
    outgoing.write(event.to_line() + "\n")
    outgoing.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.stdin, claim_stdout()))
