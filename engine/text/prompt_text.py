"""A rendered prompt: its text, and which parts of it were typed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PromptText:
    """typed: start and end of the parts that are messages' text, in order, in characters.

    Control tokens are only where nothing typed is.
    """

    text: str
    typed: Spans = ()

    def is_typed(self, start: int, end: int) -> bool:
        """Any character of the part was typed."""
        before = bisect_left(self.typed, end, key=lambda span: span[0]) - 1
        return before >= 0 and self.typed[before][1] > start

    def until(self, end: int) -> PromptText:
        typed = ((start, min(stop, end)) for start, stop in self.typed if start < end)
        return PromptText(self.text[:end], tuple(typed))


def assembled(pieces: Iterable[tuple[str, bool]]) -> PromptText:
    """A prompt of pieces, each with whether it was typed."""
    texts: list[str] = []
    typed: list[tuple[int, int]] = []
    length = 0
    for text, is_typed in pieces:
        if is_typed and text:
            typed.append((length, length + len(text)))
        texts.append(text)
        length += len(text)
    return PromptText("".join(texts), tuple(typed))
