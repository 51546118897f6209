"""auto's share of what the best schedule would have reached on the same text, prompt by prompt."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from engine.bench.samples import BenchMode, BenchReply
from engine.control.cost import CostModel
from engine.control.oracle import OracleReport, consult_oracle, merged_hits, recorded_hits
from engine.data.rounds import RoundTrace


@dataclass(frozen=True, slots=True)
class OracleLosses:
    """Shares of the decode time: of checking what was not kept, of draft steps in vain, of drafts
    that ended too early or were not begun."""

    rejected: float
    vain: float
    short: float


@dataclass(frozen=True, slots=True)
class OracleFigures:
    """Of several replies together: share of the best speed, the best speed-up over plain."""

    share: float
    best_speed_up: float
    losses: OracleLosses


def pooled(reports: Sequence[OracleReport]) -> OracleFigures | None:
    """None where no reply was compared."""
    taken = sum(one.taken_seconds for one in reports)
    best = sum(one.best_seconds for one in reports)
    if not best:
        return None
    return OracleFigures(
        share=best / taken,
        best_speed_up=sum(one.plain_seconds for one in reports) / best,
        losses=OracleLosses(
            rejected=sum(one.rejected_seconds for one in reports) / taken,
            vain=sum(one.vain_seconds for one in reports) / taken,
            short=sum(one.short_seconds for one in reports) / taken,
        ),
    )


class PassTimes:
    """T(n) of a run as it was in its rounds so far: medians, so that one slow pass is nothing."""

    def __init__(self) -> None:
        self._seconds: dict[int, list[float]] = {}

    def add(self, reply: BenchReply) -> None:
        for trace in reply.rounds:
            self._seconds.setdefault(1 + len(trace.proposed), []).append(trace.seconds.target)

    def model(self) -> CostModel | None:
        """None before there was a pass of one row."""
        if 1 not in self._seconds:
            return None
        plain = statistics.median(self._seconds[1])  # no pass is quicker
        return CostModel(
            {rows: max(plain, statistics.median(seen)) for rows, seen in self._seconds.items()}
        )


def oracle_of(
    mode: BenchMode, taken: Sequence[tuple[BenchMode, BenchReply]], times: PassTimes
) -> OracleReport | None:
    """For a mode that decides how far to draft, on greedy text; None where nothing can be said.

    taken: all replies to the prompt. What the drafter would have proposed is known from the
    replies of this drafter that have the same text, at fixed lengths too. Trees have no oracle.
    """
    cost = times.model()
    own = next(reply for other, reply in taken if other is mode)
    if cost is None or not mode.decides or not _are_chains(own.rounds):
        return None
    same = [
        recorded_hits(reply.rounds)
        for other, reply in taken
        if other.drafter == mode.drafter
        and reply.finished.tokens == own.finished.tokens
        and _are_chains(reply.rounds)
    ]
    return consult_oracle(own.rounds, merged_hits(same), cost.pass_seconds, mode.draft_max)


def _are_chains(rounds: Sequence[RoundTrace]) -> bool:
    return all(
        node.parent == index - 1 for trace in rounds for index, node in enumerate(trace.proposed)
    )
