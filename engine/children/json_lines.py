"""Reads JSON objects, one a line, from a pipe into which anything else may be written too.

A library's print, a half line of a process that was killed, bytes that are no text: none of it may
end the reading. It is logged, and left out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import IO, Any

Message = dict[str, Any]

LONGEST_LINE = 1 << 22
"""Bytes; more than any message has, and no trouble for memory."""
_SHOWN = 200

_LOG = logging.getLogger(__name__)


def messages(pipe: IO[bytes], sender: str) -> Iterator[Message]:
    """Until the pipe ends. sender: who writes into it, for the log."""
    while line := pipe.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            _skip_line(pipe)
            _LOG.warning("%s wrote a line that is too long: %s...", sender, _shown(line))
            continue
        message = parse(line) if line.endswith(b"\n") else None  # else it was killed in the middle
        if message is not None:
            yield message
        elif line.strip():
            _LOG.warning("%s wrote what is no message: %s", sender, _shown(line))


def parse(line: bytes) -> Message | None:
    """None for anything but a JSON object."""
    try:
        message = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _skip_line(pipe: IO[bytes]) -> None:
    while (rest := pipe.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
        pass


def _shown(line: bytes) -> str:
    return repr(line[:_SHOWN].decode("utf-8", "replace").rstrip("\n"))
