"""A reply on the terminal while it is written: the answer on stdout, thoughts on stderr."""

from __future__ import annotations

import sys
from typing import TextIO

from engine.data.rounds import EmittedToken, ReplyPart, RoundTrace
from engine.data.shown import shown_lines

_GREY, _USUAL = "\033[90m", "\033[0m"


class ShownReply:
    """thoughts: whether they are shown, too. A file gets the very text; a terminal would obey what
    a model writes."""

    def __init__(self, *, thoughts: bool) -> None:
        self._thoughts = thoughts
        self._last: ReplyPart = "answer"

    def add(self, trace: RoundTrace) -> None:
        for emitted in trace.emitted:
            if emitted.part == "thought" and not self._thoughts:
                continue
            if emitted.part != self._last:
                self._turn_to(emitted.part)
            self._print(emitted)

    def end(self) -> None:
        """A reply may end in its thought."""
        if self._last == "thought":
            self._turn_to("answer")

    def _turn_to(self, part: ReplyPart) -> None:
        if sys.stderr.isatty():
            print(_GREY if part == "thought" else _USUAL, end="", file=sys.stderr)
        if part == "answer":
            print("\n", file=sys.stderr, flush=True)
        self._last = part

    def _print(self, emitted: EmittedToken) -> None:
        stream: TextIO = sys.stderr if emitted.part == "thought" else sys.stdout
        text = emitted.shown
        print(shown_lines(text) if stream.isatty() else text, end="", file=stream, flush=True)
