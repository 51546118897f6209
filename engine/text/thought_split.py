"""A reply's thoughts apart from its answer, token by token, while it is written.

A marker may be one control token or a text over several tokens, so what may still become a marker
is held back. A reply is at most some thoughts and then an answer: in an answer, markers are text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.data.reasoning import ThoughtMarkers

Part = Literal["answer", "thought"]
_State = Literal["beginning", "opened", "thinking", "between", "answering"]

_SKIPS_SPACE: frozenset[_State] = frozenset({"beginning", "opened", "between"})
"""Where a marker may stand behind white space, and nothing else."""


@dataclass(frozen=True, slots=True)
class TokenPart:
    """text: what the token adds to the thought or to the answer; of a marker, nothing."""

    part: Part
    text: str


class ThoughtSplitter:
    """push every token, take what is decided; finish at the end. Texts of a token are given twice:
    as the reply's text has it, and as the bytes of a control token, which are in no text."""

    def __init__(self, markers: ThoughtMarkers, *, is_open: bool) -> None:
        """is_open: the prompt has begun a thought already."""
        self._markers = markers
        self._state: _State = "opened" if is_open else "beginning"
        self._had_thought = is_open
        self._held = ""
        self._owners: deque[_Character] = deque()
        self._waiting: deque[_Token] = deque()
        self._thought: list[str] = []

    @property
    def thought(self) -> str | None:
        """All thoughts so far, without the white space around them; None if there was none."""
        return "".join(self._thought).strip() if self._had_thought else None

    @property
    def is_thinking(self) -> bool:
        """In a thought, of which the end has not been seen."""
        return self._state in ("opened", "thinking")

    @property
    def may_think(self) -> bool:
        """A thought is open, or may still begin."""
        return self._state != "answering"

    def push(self, text: str, control: str = "") -> None:
        """The next token: what it adds to the reply's text, or the name of a control token."""
        token = _Token(self._part)
        self._waiting.append(token)
        self._held += text + control
        self._owners.extend([_Character(token, True)] * len(text))
        self._owners.extend([_Character(token, False)] * len(control))
        token.held = len(text) + len(control)
        while self._step():
            pass

    def finish(self) -> None:
        """Nothing follows: what was held back is text."""
        while self._held:
            if self._state in _SKIPS_SPACE:
                self._begin_text()
            else:
                self._write(len(self._held))

    def take(self) -> list[TokenPart]:
        """The tokens that are decided and were not taken yet, in order."""
        taken = []
        while self._waiting and not self._waiting[0].held:
            token = self._waiting.popleft()
            taken.append(TokenPart(token.part, "".join(token.written)))
        return taken

    @property
    def _part(self) -> Part:
        if self._state == "answering":
            return "answer"
        return "thought" if self._had_thought else "answer"

    def _step(self) -> bool:
        """Past a marker or a piece of text; False when what is held has to wait for more."""
        if not self._held:
            return False
        return self._step_at_edge() if self._state in _SKIPS_SPACE else self._step_in_text()

    def _step_at_edge(self) -> bool:
        space = len(self._held) - len(self._held.lstrip())
        rest, markers = self._held[space:], self._markers_here()
        for marker, state in markers.items():
            if rest.startswith(marker):
                self._pass_marker(space + len(marker), state)
                return True
        if any(marker.startswith(rest) for marker in markers):
            return False
        self._begin_text()
        return True

    def _begin_text(self) -> None:
        """There is no marker at this edge. White space belongs to the answer where nothing was
        marked at all."""
        if self._state == "beginning":
            self._state = "answering"
            return
        space = len(self._held) - len(self._held.lstrip())
        self._drop(space)
        self._state = "thinking" if self._state == "opened" else "answering"

    def _step_in_text(self) -> bool:
        markers = self._markers_here()
        found = [(self._held.find(marker), -len(marker), marker) for marker in markers]
        met = min((one for one in found if one[0] >= 0), default=None)
        if met is None:
            self._write(len(self._held) - _partial(self._held, markers))
            return False
        place, _, marker = met
        self._write(place)
        if marker in self._markers.calls:
            self._state = "answering"
        else:
            self._pass_marker(len(marker), markers[marker])
        return True

    def _markers_here(self) -> Mapping[str, _State]:
        """What counts in this state, and where it leads."""
        markers = self._markers
        begin: dict[str, _State] = dict.fromkeys(markers.start, "opened")
        end: dict[str, _State] = dict.fromkeys(markers.end, "between")
        between: dict[str, _State] = dict.fromkeys(markers.between, "between")
        calls: dict[str, _State] = dict.fromkeys(markers.calls, "answering")
        closing: dict[str, _State] = dict.fromkeys(markers.closing, "answering")
        found: dict[_State, dict[str, _State]] = {
            "beginning": begin | between,
            "opened": begin | end,
            "thinking": end | calls,
            "between": begin | between,
            "answering": closing,
        }
        return found[self._state]

    def _pass_marker(self, length: int, state: _State) -> None:
        if state == "opened" and self._thought:
            self._thought.append("\n\n")
        self._state = state
        self._had_thought = self._had_thought or state == "opened"
        self._drop(length)

    def _drop(self, length: int) -> None:
        for character in self._next(length):
            character.token.part = self._part

    def _write(self, length: int) -> None:
        text = self._held[:length]
        for letter, character in zip(text, self._next(length), strict=True):
            token = character.token
            if token.part != self._part:  # what it ended the thought with is in the thought only
                token.part = self._part
                token.written.clear()
            if character.is_text:
                token.written.append(letter)
                if self._state == "thinking":
                    self._thought.append(letter)

    def _next(self, length: int) -> list[_Character]:
        """Takes so many characters out of what is held."""
        self._held = self._held[length:]
        taken = [self._owners.popleft() for _ in range(length)]
        for character in taken:
            character.token.held -= 1
        return taken


class _Token:
    """held: characters that are not decided yet."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.held = 0
        self.written: list[str] = []


@dataclass(frozen=True, slots=True)
class _Character:
    """is_text: not of a control token."""

    token: _Token
    is_text: bool


def _partial(text: str, markers: Iterable[str]) -> int:
    """Characters at the end of a text that may be the beginning of a marker."""
    return max(
        (
            length
            for marker in markers
            for length in range(1, min(len(marker), len(text) + 1))
            if text.endswith(marker[:length])
        ),
        default=0,
    )
