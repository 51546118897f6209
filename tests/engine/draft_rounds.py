"""What a drafter is asked for one proposal, and a policy that keeps what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

from engine.control.controller import AlwaysDraft
from engine.data.draft_policy import DraftPolicy
from engine.data.request import DraftMode, SamplingParams
from engine.drafters.base import DraftRound
from engine.maths.randomness import IndependentStream
from engine.maths.sampling import Sampler


def draft_round(
    context: Sequence[int],
    depth: int = 4,
    policy: DraftPolicy | None = None,
    sampling: SamplingParams | None = None,
    mode: DraftMode = "sampled",
) -> DraftRound:
    return DraftRound(
        context=list(context),
        max_depth=depth,
        sampler=Sampler(sampling or SamplingParams()),
        mode=mode,
        stream=IndependentStream(5, "draft"),
        policy=policy or AlwaysDraft(depth),
    )


class AskedPolicy:
    """Keeps what it is asked; says no from depth `stop` on."""

    def __init__(self, stop: int = 99, start: bool = True) -> None:
        self.asked: list[tuple[int, float]] = []
        self._stop = stop
        self._start = start

    def of(self, drafter: str) -> AskedPolicy:
        return self

    def may_catch_up(self, tokens: int) -> bool:
        return True

    def may_start(self) -> bool:
        return self._start

    def may_step(self, depth: int) -> bool:
        return True

    def should_continue(self, depth: int, confidence: float) -> bool:
        self.asked.append((depth, confidence))
        return depth < self._stop

    def pays_to_add(self, probability: float, rows: int) -> bool:
        return True

    def expected_saving(self, confidence: float | None = None) -> float:
        return 0.0
