"""A line of llama.cpp's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of llama.cpp's log. number grows by one a line; level as in logging."""

    number: int
    level: int
    text: str
