"""Token bytes to text, one token at a time, never half a character."""

from __future__ import annotations

import codecs
from collections.abc import Callable


class IncrementalText:
    """Bytes of an unfinished character wait for the token that completes it."""

    def __init__(self, piece: Callable[[int], bytes]) -> None:
        self._piece = piece
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        return self._decoder.decode(self._piece(token))

    @property
    def is_waiting(self) -> bool:
        """Whether the last character is incomplete."""
        return bool(self._decoder.getstate()[0])

    def finish(self) -> str:
        """What an incomplete last character looks like; "" normally."""
        return self._decoder.decode(b"", final=True)

    def alone(self, token: int) -> str:
        """A token's text out of context, for rejected drafts."""
        return self._piece(token).decode("utf-8", errors="replace")
