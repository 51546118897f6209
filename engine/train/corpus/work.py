"""What the target is to answer or to read: items in a fixed order, in blocks that are claimed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from engine.data.request import Message

BLOCK = 64
HELDOUT_EVERY = 20
OWN = frozenset({"text", "prompt file", "chat"})
"""Categories of documents that come from the user's own material."""
SAMPLED_TEMPERATURE = 0.7
SAMPLED_TOP_P = 0.95
ASKING_TEMPERATURE = 1.0


@dataclass(frozen=True, slots=True)
class Item:
    """One document to be: messages that the target answers, or `text` that it reads.

    follow_up: the user's next message after the answer, "" for none. opening: the beginning of a
    question that the target finishes itself, before it is asked as a document of the same id
    (Magpie, Xu et al. 2024, arXiv 2406.08464, with the first words given).
    """

    id: str
    category: str
    messages: tuple[Message, ...] = ()
    text: str = ""
    follow_up: str = ""
    opening: str = ""

    @property
    def _number(self) -> int:
        return zlib.crc32(self.id.partition("+")[0].encode())

    @property
    def heldout(self) -> bool:
        """One in twenty, by name: the same wherever it is asked, and turns stay together."""
        return self._number % HELDOUT_EVERY == 0

    @property
    def temperature(self) -> float:
        """Half of the documents are greedy; questions are drawn freely, so that they differ."""
        if self.opening:
            return ASKING_TEMPERATURE
        return SAMPLED_TEMPERATURE if (self._number >> 8) % 2 else 0.0

    @property
    def seed(self) -> int:
        return self._number


def blocks(items: Sequence[Item]) -> list[Sequence[Item]]:
    return [items[start : start + BLOCK] for start in range(0, len(items), BLOCK)]
