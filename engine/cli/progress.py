"""A download's progress on stderr: one moving line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
from typing import TextIO

from engine.data.shown import shown, shown_name
from engine.downloads.job import DownloadSnapshot
from engine.downloads.manager import Downloads

_REDRAW_SECONDS = 0.2
_STEP = 0.1
_BAR = 24


def follow(downloads: Downloads, id_: str, stream: TextIO | None = None) -> DownloadSnapshot:
    """Show the download until it has ended. Ctrl-C passes through; the caller cancels."""
    view = ProgressView(stream or sys.stderr)
    changed = threading.Event()
    downloads.subscribe(changed.set)
    snapshot = downloads.job(id_)
    while snapshot.is_active:
        view.show(snapshot)
        changed.wait(_REDRAW_SECONDS)
        changed.clear()
        snapshot = downloads.job(id_)
    view.end(snapshot)
    return snapshot


class ProgressView:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._last = ""
        self._step = -1

    def show(self, snapshot: DownloadSnapshot) -> None:
        if self._is_terminal:
            self._redraw(describe(snapshot))
        elif self._is_news(snapshot):
            self._stream.write(describe(snapshot) + "\n")
            self._stream.flush()

    def end(self, snapshot: DownloadSnapshot) -> None:
        """Leave a last line of a good download; an error is the caller's to tell."""
        if snapshot.state == "done":
            self.show(snapshot)
        if self._is_terminal and self._last:
            self._stream.write("\n")
        self._stream.flush()

    def _redraw(self, line: str) -> None:
        if line != self._last:
            self._stream.write("\r" + line.ljust(len(self._last)))
            self._stream.flush()
            self._last = line

    def _is_news(self, snapshot: DownloadSnapshot) -> bool:
        """Every tenth of the file, and every new phase."""
        share = snapshot.bytes / snapshot.total if snapshot.total else 0.0
        step, phase = int(share / _STEP), snapshot.message or snapshot.state
        news = step != self._step or phase != self._last
        self._step, self._last = step, phase
        return news


def describe(snapshot: DownloadSnapshot) -> str:
    """One line: name, bar, bytes, speed, time left, phase."""
    parts = [shown_name(snapshot.name)]
    if snapshot.total:
        share = min(snapshot.bytes / snapshot.total, 1.0)
        filled = int(share * _BAR)
        parts.append(f"[{'#' * filled}{'-' * (_BAR - filled)}] {share:4.0%}")
        parts.append(f"{snapshot.bytes / 1e6:,.0f} of {snapshot.total / 1e6:,.0f} MB")
    if snapshot.bytes_per_second > 0:
        parts.append(f"{snapshot.bytes_per_second / 1e6:.1f} MB/s")
    if snapshot.seconds_left is not None:
        minutes, seconds = divmod(int(snapshot.seconds_left), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    if snapshot.state == "done":
        parts.append("done")
    elif snapshot.message and snapshot.message != "downloading":
        parts.append(shown(snapshot.message))
    return "  ".join(parts)
