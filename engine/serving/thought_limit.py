"""Ends a thought that has taken its budget, or that is told to end: its end marker is given, not
drawn. What counts are committed tokens, never drafted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from engine.data.request import UNLIMITED, GenerateRequest

USUAL_BUDGET = 4096
_ENDLESS = 2**31
_LONGEST_CHARACTER = 4


class FollowedThought(Protocol):
    """See engine.serving.thoughts.ReplyThoughts.

    thought_tokens: of the present thought, behind its opening marker. may_think: not answering yet.
    tail: the last tokens of the reply.
    """

    @property
    def is_thinking(self) -> bool: ...

    @property
    def may_think(self) -> bool: ...

    @property
    def is_mid_character(self) -> bool: ...

    @property
    def thought_tokens(self) -> int: ...

    @property
    def tail(self) -> Sequence[int]: ...


def budget_of(request: GenerateRequest, free: int) -> int | None:
    """Tokens that a thought may have, None for no limit. free: those that the context has left for
    the whole reply; half of them are the answer's."""
    if request.thinking_budget is None:
        return min(USUAL_BUDGET, free // 2)
    return None if request.thinking_budget == UNLIMITED else request.thinking_budget


class ThoughtLimit:
    """The Steering of a reply that may think. A new thought has the whole budget again."""

    def __init__(
        self,
        thoughts: FollowedThought,
        budget: int | None,
        end_marker: Sequence[int],
        answer_now: Callable[[], bool],
    ) -> None:
        """answer_now: whether the reply was told to end its thoughts, from now on."""
        self._thoughts = thoughts
        self._budget = budget
        self._marker = tuple(end_marker)
        self._answer_now = answer_now
        self._told_at: int | None = None
        self._given = 0

    @property
    def room(self) -> int:
        """Tokens that may be drawn before `forced` has to be asked again."""
        limit, thoughts = self._limit(), self._thoughts
        if limit is None or not thoughts.may_think:
            return _ENDLESS
        if not thoughts.is_thinking:
            return limit + 1  # an opening marker has a token at least
        return max(1, limit - thoughts.thought_tokens)

    def forced(self) -> int | None:
        """The token that comes next whatever the target would say, None where it is asked."""
        if not self._thoughts.is_thinking:
            self._given = 0
            return None
        if not self._is_due() or self._given >= len(self._marker):
            return None  # a marker that ends nothing is given once
        token = self._marker[self._begun()]
        self._given += 1
        return token

    def _limit(self) -> int | None:
        if not self._answer_now():
            return self._budget
        written = self._thoughts.thought_tokens if self._thoughts.is_thinking else 0
        self._told_at = written if self._told_at is None else min(self._told_at, written)
        return self._told_at if self._budget is None else min(self._told_at, self._budget)

    def _is_due(self) -> bool:
        limit, written = self._limit(), self._thoughts.thought_tokens
        if limit is None or written < limit:
            return False
        is_half = self._thoughts.is_mid_character and written < limit + _LONGEST_CHARACTER
        return self._given > 0 or not is_half

    def _begun(self) -> int:
        """Tokens of the marker that the reply ends with already."""
        tail = tuple(self._thoughts.tail)
        for length in range(min(len(tail), len(self._marker) - 1), 0, -1):
            if tail[-length:] == self._marker[:length]:
                return length
        return 0
