"""How much of the context a prompt takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromptSize:
    """tokens: of the whole prompt, before anything is left out. limit: of the context.

    dropped: how many of the oldest messages would be left out. refused: why the request would be
    refused, "" where it would not. texts: tokens of each text that was asked for besides.
    """

    tokens: int
    limit: int
    dropped: int = 0
    refused: str = ""
    texts: tuple[int, ...] = ()
