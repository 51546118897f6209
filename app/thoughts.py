"""A reply's thought among its wire tokens: `details.reasoning`, {"from", "to", "seconds"}.

Wire tokens are one list: the thought's (its markers, which have no text, among them), then the
answer's. seconds: of the rounds that wrote the thought. Where the model did not end it itself,
"ended" is there too: "budget" or "asked".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.wire import WireToken, text_of
from engine.data.rounds import EmittedToken, ReplyPart, RoundTrace


class LiveThought:
    """Follows the rounds of one reply."""

    def __init__(self, told: int = 0, thought: Mapping[str, Any] | None = None) -> None:
        """told: tokens that the reply has already. thought: what is known of them. is_asked: the
        user has asked for its end."""
        known = thought or {}
        self.is_asked = False
        self._told = told
        self._start, self._end = int(known.get("from", 0)), int(known.get("to", 0))
        self._seconds = float(known.get("seconds", 0.0))
        self._ended = str(known.get("ended", ""))

    def add(self, trace: RoundTrace) -> dict[str, Any] | None:
        """What is known of the thought, None where the round added nothing to it."""
        before = self._end
        for emitted in trace.emitted:
            if emitted.part == "thought":
                self._start = self._told if self._start == self._end else self._start
                self._end = self._told + 1
                self._note_end(emitted)
            self._told += 1
        if self._end == before:
            return None
        self._seconds += trace.seconds.total
        return self._known()

    def retell(self, parts: Sequence[ReplyPart]) -> dict[str, Any] | None:
        """What all tokens so far belong to; what is known then, None for no thought."""
        thoughts = [number for number, part in enumerate(parts) if part == "thought"]
        self._start, self._end = (thoughts[0], thoughts[-1] + 1) if thoughts else (0, 0)
        return self._known() if thoughts else None

    def _known(self) -> dict[str, Any]:
        ended = {"ended": self._ended} if self._ended else {}
        seconds = round(self._seconds, 2)
        return {"from": self._start, "to": self._end, "seconds": seconds, **ended}

    def _note_end(self, emitted: EmittedToken) -> None:
        """A given token ends the thought, unless thinking goes on behind it."""
        if emitted.forced:
            self._ended = self._ended or ("asked" if self.is_asked else "budget")
        elif emitted.shown.strip():
            self._ended = ""


def answer_of(tokens: Sequence[WireToken], details: Mapping[str, Any]) -> str:
    start, end = _range(tokens, details)
    return text_of([*tokens[:start], *tokens[end:]])


def thought_of(tokens: Sequence[WireToken], details: Mapping[str, Any]) -> str | None:
    """None where nothing was thought."""
    start, end = _range(tokens, details)
    return text_of(tokens[start:end]).strip() or None


def _range(tokens: Sequence[WireToken], details: Mapping[str, Any]) -> tuple[int, int]:
    """An empty one for a damaged record, too: its tokens are the answer."""
    kept = details.get("reasoning")
    if not isinstance(kept, dict):
        return 0, 0
    start, end = kept.get("from"), kept.get("to")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= len(tokens):
        return 0, 0
    return start, end
