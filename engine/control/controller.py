"""How far to draft, and when not to: asked before every draw, told the outcome of every round."""

from __future__ import annotations

from typing import Protocol

from engine.data.draft_policy import DraftPolicy
from engine.data.rounds import RoundTrace


class Controller(DraftPolicy, Protocol):
    def start_round(self) -> int:
        """Deepest proposal allowed in this round, in tokens; 0 means no draft."""
        ...

    @property
    def parked(self) -> bool:
        """Whether it chose not to draft in this round because drafting costs more than it saves."""
        ...

    def finish_round(self, trace: RoundTrace) -> None: ...


class NeverDraft:
    """--speculate off."""

    parked = False

    def start_round(self) -> int:
        return 0

    def may_catch_up(self, drafter: str, tokens: int) -> bool:
        return False

    def may_start(self, drafter: str) -> bool:
        return False

    def may_step(self, drafter: str, depth: int) -> bool:
        return False

    def should_continue(self, drafter: str, depth: int, confidence: float) -> bool:
        return False

    def worth_adding(self, drafter: str, chance: float, rows: int) -> bool:
        return False

    def worth(self, drafter: str, confidence: float | None = None) -> float:
        return 0.0

    def finish_round(self, trace: RoundTrace) -> None:
        pass


class AlwaysDraft:
    """--speculate always: every round, as deep as allowed."""

    parked = False

    def __init__(self, draft_max: int) -> None:
        self._draft_max = draft_max

    def start_round(self) -> int:
        return self._draft_max

    def may_catch_up(self, drafter: str, tokens: int) -> bool:
        return True

    def may_start(self, drafter: str) -> bool:
        return True

    def may_step(self, drafter: str, depth: int) -> bool:
        return True

    def should_continue(self, drafter: str, depth: int, confidence: float) -> bool:
        return True

    def worth_adding(self, drafter: str, chance: float, rows: int) -> bool:
        return True

    def worth(self, drafter: str, confidence: float | None = None) -> float:
        return 0.0

    def finish_round(self, trace: RoundTrace) -> None:
        pass
