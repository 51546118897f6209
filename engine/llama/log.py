"""llama.cpp's log lines, captured instead of printed."""

from __future__ import annotations

import logging
import threading
from collections import deque

from llama_cpp import llama_cpp as native

from engine.data.log_line import LogLine

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_CONTINUATION = 5
KEPT_LINES = 2000


class NativeLog:
    """Assembles the callback's fragments into lines and keeps those not yet taken.

    The callback object must outlive every native call, so it is held here.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: deque[LogLine] = deque(maxlen=KEPT_LINES)
        self._recent: deque[str] = deque(maxlen=40)
        self._fragment = ""
        self._level = logging.INFO
        self._number = 0
        self._callback = native.llama_log_callback(self._receive)
        native.llama_log_set(self._callback, None)

    def _receive(self, level: int, text: bytes, _user_data: object) -> None:
        with self._lock:
            if level != _CONTINUATION:
                self._level = _LEVELS.get(level, logging.INFO)
            self._fragment += text.decode("utf-8", errors="replace")
            *lines, self._fragment = self._fragment.split("\n")
            for line in lines:
                if line.strip():
                    self._number += 1
                    self._pending.append(LogLine(self._number, self._level, line))
                    if self._level >= logging.WARNING:
                        self._recent.append(line.strip())

    def take(self) -> tuple[LogLine, ...]:
        """Lines since the last call, oldest first."""
        with self._lock:
            lines = tuple(self._pending)
            self._pending.clear()
            return lines

    def forget_problems(self) -> None:
        with self._lock:
            self._recent.clear()

    def last_problem(self) -> str:
        """The last warning or error since forget_problems, for error messages; "" if none."""
        with self._lock:
            return self._recent[-1] if self._recent else ""
