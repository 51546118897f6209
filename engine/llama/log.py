"""llama.cpp's log lines, captured instead of printed, and the reason they give for a failure."""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from typing import ClassVar

from llama_cpp import llama_cpp as native

from engine.data.log_line import LogLine
from engine.data.shown import shown

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_CONTINUATION = 5
KEPT_LINES = 2000
KEPT_ERRORS = 1000
LONGEST_REASON = 300

_SPEAKER = re.compile(r"^(?:[A-Za-z_][\w:~]*(?:\(\))?: +)+")
"""Names of functions before the message."""

_FRAME = re.compile(
    r"^(?:error loading model(?: \w+)?|failed to quantize|failed to initialize the context"
    r"|failed to load model(?: \w+)?|exception): *",
    re.IGNORECASE,
)
_SAYS_NOTHING = re.compile(
    r"(?:failed to load model|failed to load model from file|failed to initialize the context"
    r"|failed to create context|exiting|error loading model|failed to quantize)?[.:!]*",
    re.IGNORECASE,
)
"""What is left of lines that only repeat that something failed."""


def cleaned_reason(line: str) -> str:
    """A log line without its speaker and control characters, bounded; "" if it says no reason."""
    text = " ".join("".join(one if one.isprintable() else " " for one in line).split())
    before = ""
    while before != text:
        before = text
        text = _FRAME.sub("", _SPEAKER.sub("", text))
    if _SAYS_NOTHING.fullmatch(text):
        return ""
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def with_reason(message: str, reason: str) -> str:
    """reason: llama.cpp's own words, "" if it gave none."""
    return f"{message} (llama.cpp: {reason})" if reason else message


class NativeLog:
    """Assembles fragments into lines and keeps those not yet taken.

    The callback object must outlive every native call, so it is held here.
    """

    connected: ClassVar[NativeLog | None] = None
    """For code that is handed no log, as tensor graphs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: deque[LogLine] = deque(maxlen=KEPT_LINES)
        self._errors: deque[LogLine] = deque(maxlen=KEPT_ERRORS)
        self._fragment = ""
        self._level = logging.INFO
        self._number = 0
        self._callback = native.llama_log_callback(self.receive)

    def connect(self) -> None:
        """From now on llama.cpp's lines of this process come here. It has one log for all."""
        native.llama_log_set(self._callback, None)
        NativeLog.connected = self

    def receive(self, level: int, text: bytes, _user_data: object = None) -> None:
        """A fragment as llama.cpp hands it out. level: ggml_log_level."""
        with self._lock:
            if level != _CONTINUATION:
                self._level = _LEVELS.get(level, logging.INFO)
            self._fragment += text.decode("utf-8", errors="replace")
            *lines, self._fragment = self._fragment.split("\n")
            for line in lines:
                if line.strip():
                    self._number += 1
                    entry = LogLine(self._number, self._level, shown(line))
                    self._pending.append(entry)
                    if self._level >= logging.ERROR:
                        self._errors.append(entry)

    def take(self) -> tuple[LogLine, ...]:
        """Lines since the last call, oldest first."""
        with self._lock:
            lines = tuple(self._pending)
            self._pending.clear()
            return lines

    def mark(self) -> int:
        """Where the log stands; for `reason`."""
        with self._lock:
            return self._number

    def reason(self, mark: int) -> str:
        """The first error since the mark that says why something failed; "" if none does.

        The first one: what follows only tells who gave up because of it.
        """
        with self._lock:
            lines = [line.text for line in self._errors if line.number > mark]
            if self._fragment and self._level >= logging.ERROR:
                lines.append(self._fragment)
        return next(filter(None, map(cleaned_reason, lines)), "")


class Listening:
    """What the connected log says from here on; nothing where none is."""

    def __init__(self) -> None:
        self._log = NativeLog.connected
        self._mark = self._log.mark() if self._log is not None else 0

    def told(self, message: str) -> str:
        """The message with the reason."""
        return with_reason(message, self._log.reason(self._mark) if self._log is not None else "")
