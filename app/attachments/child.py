"""`python -m app.attachments.child PATH BYTES SECONDS`: reads one file and writes its text.

{"page", "of"} for each page, {"text"} in pieces, then {"kind"}; or {"refused"} with the reason.
A file may try to use up all memory and time: that costs only this process, which limits itself.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from app.attachments.kinds import read_document
from app.attachments.refusal import UnreadableError
from engine.children.speaking import claim_stdout

if sys.platform != "win32":
    import resource

_PIECE = 200_000
"""Characters in a line: fewer bytes than the parent reads at once."""


def main() -> int:
    path, memory, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    out = claim_stdout()
    logging.disable()  # pypdf tells of every oddity
    _limit(memory, seconds)

    def tell(message: dict[str, Any]) -> None:
        out.write(json.dumps(message, ensure_ascii=True) + "\n")
        out.flush()

    try:
        with open(path, "rb") as file:
            kind, text = read_document(file, lambda page, of: tell({"page": page, "of": of}))
    except UnreadableError as reason:
        tell({"refused": str(reason)})
        return 0
    except MemoryError:
        tell({"refused": "takes too much memory to read"})
        return 0
    for start in range(0, len(text), _PIECE):
        tell({"text": text[start : start + _PIECE]})
    tell({"kind": kind})
    return 0


def _limit(memory: int, seconds: int) -> None:
    if sys.platform == "win32":
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


if __name__ == "__main__":
    sys.exit(main())
