"""The policy as members of an ensemble see it: whatever they ask, the ensemble is meant."""

from __future__ import annotations

from dataclasses import dataclass

from engine.data.draft_policy import DraftPolicy


@dataclass(frozen=True, slots=True)
class OwnedPolicy:
    """For members that draft one proposal together, so that none is judged by itself."""

    outer: DraftPolicy
    owner: str

    def may_catch_up(self, drafter: str, tokens: int) -> bool:
        return self.outer.may_catch_up(self.owner, tokens)

    def may_start(self, drafter: str) -> bool:
        return self.outer.may_start(self.owner)

    def may_step(self, drafter: str, depth: int) -> bool:
        return self.outer.may_step(self.owner, depth)

    def should_continue(self, drafter: str, depth: int, confidence: float) -> bool:
        return self.outer.should_continue(self.owner, depth, confidence)

    def worth_adding(self, drafter: str, chance: float, rows: int) -> bool:
        return self.outer.worth_adding(self.owner, chance, rows)

    def worth(self, drafter: str, confidence: float | None = None) -> float:
        return self.outer.worth(self.owner, confidence)
