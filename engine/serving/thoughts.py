"""A reply's rounds with what each token belongs to: the thoughts, or the answer.

Only what is told of a reply: what is decoded, counted and kept in the caches is not touched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from engine.data.events import Thought
from engine.data.reasoning import ThoughtMarkers
from engine.data.rounds import EmittedToken, RoundTrace
from engine.text.detokenize import IncrementalText
from engine.text.thought_split import ThoughtSplitter, TokenPart

_TAIL = 32
"""Tokens at a prompt's end that an opening marker is looked for in."""


class Pieces(Protocol):
    """See engine.llama.vocab.Vocab."""

    def piece(self, token: int, *, special: bool = False) -> bytes: ...


class ReplyThoughts:
    """Holds a round back as long as one of its tokens may be part of a marker."""

    def __init__(
        self,
        markers: ThoughtMarkers,
        vocabulary: Pieces,
        prompt: Sequence[int],
        continuation: Sequence[int] = (),
    ) -> None:
        """continuation: tokens of the reply that the prompt ends with."""
        self.end_marker = markers.end[0]
        self._vocabulary = vocabulary
        own = len(prompt) - len(continuation)
        tail = b"".join(vocabulary.piece(one, special=True) for one in prompt[:own][-_TAIL:])
        is_open = markers.are_open_in(tail.decode(errors="replace"))
        self._splitter = ThoughtSplitter(markers, is_open=is_open)
        self._text = IncrementalText(vocabulary.piece)
        self._tail: deque[int] = deque(maxlen=_TAIL)
        self._thought_tokens = 0
        self._continued = len(continuation)
        self._begun: list[TokenPart] = []
        self._held: deque[RoundTrace] = deque()
        self._parts: deque[TokenPart] = deque()
        for token in continuation:
            self._push(token, self._text.push(token))
        self._told = self._start = self._end = 0

    @property
    def thought(self) -> Thought | None:
        """What was told of it; None while there is none."""
        if self._start == self._end:
            return None
        return Thought(self._splitter.thought or "", self._start, self._end)

    @property
    def begun(self) -> Sequence[TokenPart]:
        """The continuation, once a round was told."""
        return tuple(self._begun)

    @property
    def is_thinking(self) -> bool:
        return self._splitter.is_thinking

    @property
    def may_think(self) -> bool:
        return self._splitter.may_think

    @property
    def is_mid_character(self) -> bool:
        return self._text.is_waiting

    @property
    def thought_tokens(self) -> int:
        """Of the present thought, behind its opening marker; 0 outside."""
        return self._thought_tokens

    @property
    def tail(self) -> Sequence[int]:
        """The last tokens of the reply."""
        return tuple(self._tail)

    def _push(self, token: int, text: str) -> None:
        was_thinking = self.is_thinking
        self._splitter.push(text, self._control(token))
        self._tail.append(token)
        goes_on = was_thinking and self.is_thinking
        self._thought_tokens = self._thought_tokens + 1 if goes_on else 0

    def take(self, trace: RoundTrace) -> list[RoundTrace]:
        """The rounds that can be told now."""
        for emitted in trace.emitted:
            self._text.push(emitted.token)
            self._push(emitted.token, emitted.text)
        self._held.append(trace)
        return self._released()

    def finish(self) -> list[RoundTrace]:
        """Nothing follows: the rounds that were held back."""
        self._splitter.finish()
        return self._released()

    def _control(self, token: int) -> str:
        """The name of a token that adds nothing to the text."""
        if self._vocabulary.piece(token):
            return ""
        return self._vocabulary.piece(token, special=True).decode(errors="replace")

    def _released(self) -> list[RoundTrace]:
        self._parts.extend(self._splitter.take())
        while self._parts and len(self._begun) < self._continued:
            self._begun.append(self._parts.popleft())
        told = []
        while self._held and len(self._held[0].emitted) <= len(self._parts):
            trace = self._held.popleft()
            emitted = tuple(self._marked(one, self._parts.popleft()) for one in trace.emitted)
            told.append(replace(trace, emitted=emitted))
        return told

    def _marked(self, emitted: EmittedToken, part: TokenPart) -> EmittedToken:
        if part.part == "thought":
            if self._start == self._end:
                self._start = self._told
            self._end = self._told + 1
        self._told += 1
        said = None if part.text == emitted.text else part.text
        return replace(emitted, part=part.part, said=said)
