"""Whether and how far to draft: asked before every draw, given the outcome of every round."""

from __future__ import annotations

from typing import Protocol

from engine.data.draft_policy import DraftPolicy
from engine.data.rounds import RoundTrace


class Controller(Protocol):
    """Decides for a reply; drafters ask the policy that is bound to them."""

    def of(self, drafter: str) -> DraftPolicy: ...

    def start_round(self) -> int:
        """Deepest proposal allowed in this round, in tokens; 0 means no draft."""
        ...

    @property
    def parked(self) -> bool:
        """Whether it chose not to draft in this round because drafting costs more than it saves."""
        ...

    def finish_round(self, trace: RoundTrace) -> None: ...


class NeverDraft:
    """--speculate off. The same answers for every drafter."""

    parked = False

    def of(self, drafter: str) -> NeverDraft:
        return self

    def start_round(self) -> int:
        return 0

    def may_catch_up(self, tokens: int) -> bool:
        return False

    def may_start(self) -> bool:
        return False

    def may_step(self, depth: int) -> bool:
        return False

    def should_continue(self, depth: int, confidence: float) -> bool:
        return False

    def pays_to_add(self, probability: float, rows: int) -> bool:
        return False

    def expected_saving(self, confidence: float | None = None) -> float:
        return 0.0

    def finish_round(self, trace: RoundTrace) -> None:
        pass


class AlwaysDraft:
    """--speculate always: every round, as deep as allowed. The same answers for every drafter."""

    parked = False

    def __init__(self, draft_max: int) -> None:
        self._draft_max = draft_max

    def of(self, drafter: str) -> DraftPolicy:
        return self

    def start_round(self) -> int:
        return self._draft_max

    def may_catch_up(self, tokens: int) -> bool:
        return True

    def may_start(self) -> bool:
        return True

    def may_step(self, depth: int) -> bool:
        return True

    def should_continue(self, depth: int, confidence: float) -> bool:
        return True

    def pays_to_add(self, probability: float, rows: int) -> bool:
        return True

    def expected_saving(self, confidence: float | None = None) -> float:
        return 0.0

    def finish_round(self, trace: RoundTrace) -> None:
        pass
