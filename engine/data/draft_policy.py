"""May another token be drafted? What a drafter asks of whoever decides."""

from __future__ import annotations

from typing import Protocol


class DraftPolicy(Protocol):
    """Answers one drafter, the one it is bound to."""

    def of(self, drafter: str) -> DraftPolicy:
        """The policy of another drafter: of a member that drafts by itself, when it is its turn."""
        ...

    def may_catch_up(self, tokens: int) -> bool:
        """May it take in so many tokens of the text that it has not seen, in order to draft?"""
        ...

    def may_start(self) -> bool:
        """Ask once a round before any work; no means this drafter is parked."""
        ...

    def may_step(self, depth: int) -> bool:
        """Ask before the draft step that tells how sure it is of the token at `depth` (from 1)."""
        ...

    def should_continue(self, depth: int, confidence: float) -> bool:
        """Ask BEFORE drawing the token at `depth` (from 1); deciding after the draw is biased.

        confidence: the drafter's probability, in 0..1, that its next token is right.
        """
        ...

    def pays_to_add(self, probability: float, rows: int) -> bool:
        """For trees: may a node that is kept with this probability join a pass of `rows` rows?

        probability: of the whole path down to the node. Ask before drawing the node's token.
        """
        ...

    def expected_saving(self, confidence: float | None = None) -> float:
        """Seconds that a round with this drafter is expected to save, to choose among several.

        confidence: in its first token, where that is known without work. The same for all where
        nothing is measured.
        """
        ...
