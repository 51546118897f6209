"""What drafting costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftCost:
    """Seconds. step: one draft step. token: per token of text that is taken in before drafting."""

    step: float
    token: float = 0.0
