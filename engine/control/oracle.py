"""The best that drafting could have done on a text that is known: what auto is compared with.

Given the drafter's hits on a fixed text, dynamic programming finds the schedule of draft lengths
that takes least time. It knows the future: which tokens will be kept, so it never drafts a token
in vain. No rule that decides before it knows can reach that; the share shows how near one comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from engine.data.rounds import RoundTrace


@dataclass(frozen=True, slots=True)
class OracleReport:
    """Seconds of decoding, all from the same costs. known: share of places where it is recorded
    what the drafter would have proposed; at the others it is taken to be wrong.

    Parts of taken: rejected_seconds widened passes by tokens that were not kept, vain_seconds went
    to draft steps that brought no kept token.
    """

    tokens: int
    known: float
    plain_seconds: float
    taken_seconds: float
    rejected_seconds: float
    vain_seconds: float
    best_seconds: float
    fixed_seconds: float
    fixed_length: int

    @property
    def share(self) -> float:
        """How much of the best speed was reached, 0..1."""
        return self.best_seconds / self.taken_seconds

    @property
    def short_seconds(self) -> float:
        """Lost by drafts that ended although more would have been kept, or had no drafter."""
        return self.taken_seconds - self.best_seconds - self.rejected_seconds - self.vain_seconds

    @property
    def best_speed_up(self) -> float:
        return self.plain_seconds / self.best_seconds

    @property
    def speed_up(self) -> float:
        return self.plain_seconds / self.taken_seconds


def best_seconds(
    hits: Sequence[bool], pass_seconds: Callable[[int], float], step: float, draft_max: int
) -> float:
    """Least time for a text. hits: by place, whether the drafter's token there is right.

    A round at place i with d drafted tokens, all hits, takes d * step + T(d + 1) and yields d + 1
    tokens. Drafting a token that is a miss never helps, so the best schedule has none.
    """
    passes = [pass_seconds(width + 1) + width * step for width in range(draft_max + 1)]
    best = [0.0] * (len(hits) + 1)
    run = 0  # hits in a row from this place on
    for place in range(len(hits) - 1, -1, -1):
        run = run + 1 if hits[place] else 0
        deepest = min(run, draft_max, len(hits) - place - 1)
        best[place] = min(passes[d] + best[place + d + 1] for d in range(deepest + 1))
    return best[0]


def fixed_seconds(
    hits: Sequence[bool], pass_seconds: Callable[[int], float], step: float, length: int
) -> float:
    """Time for the text with `length` tokens drafted in every round, 0 for plain decoding."""
    place, seconds = 0, 0.0
    while place < len(hits):
        drafted = min(length, len(hits) - place - 1)
        kept = 0
        while kept < drafted and hits[place + kept]:
            kept += 1
        seconds += drafted * step + pass_seconds(drafted + 1)
        place += kept + 1
    return seconds


def recorded_hits(traces: Iterable[RoundTrace]) -> list[bool | None]:
    """By place of the reply, whether the drafter's token is right; None where it had no say.

    From greedy replies with chains: the target's text and the drafter's answer to it are then
    functions of the text alone, wherever a round begins. Most places are known where rounds draft
    at fixed length, few where a controller parks.
    """
    hits: list[bool | None] = []
    for trace in traces:
        accepted = _kept(trace)
        for index in range(len(trace.emitted)):
            if index < accepted:
                hits.append(True)
            else:
                hits.append(False if index < len(trace.proposed) else None)
    return hits


def consult_oracle(
    taken: Iterable[RoundTrace],
    hits: Sequence[bool | None],
    pass_seconds: Callable[[int], float],
    draft_max: int,
) -> OracleReport:
    """Compares a recorded reply with the best schedule for its text.

    taken: auto's rounds. hits: of the same text, from recorded_hits of any of its replies, merged
    by merged_hits. pass_seconds: T(n), used for all schedules alike, so that noise in single
    passes is no part of the comparison. Greedy chains only. Draft steps take what they
    took in `taken`.
    """
    rounds = list(taken)
    step = _draft_step(rounds)
    sure = [hit is True for hit in hits]
    lengths = range(draft_max + 1)
    fixed = {k: fixed_seconds(sure, pass_seconds, step, k) for k in lengths}
    length = min(fixed, key=lambda k: fixed[k])
    known = sum(hit is not None for hit in hits) / max(1, len(hits))
    kept = [_kept(trace) for trace in rounds]
    passes = [pass_seconds(1 + len(trace.proposed)) for trace in rounds]
    return OracleReport(
        tokens=len(hits),
        known=known,
        plain_seconds=len(hits) * pass_seconds(1),
        taken_seconds=sum(trace.seconds.draft for trace in rounds) + sum(passes),
        rejected_seconds=sum(passes) - sum(pass_seconds(1 + length) for length in kept),
        vain_seconds=sum(trace.seconds.draft for trace in rounds) - step * sum(kept),
        best_seconds=best_seconds(sure, pass_seconds, step, draft_max),
        fixed_seconds=fixed[length],
        fixed_length=length,
    )


def _kept(trace: RoundTrace) -> int:
    return sum(node.accepted for node in trace.proposed)


def _draft_step(rounds: Sequence[RoundTrace]) -> float:
    """Seconds per drafted token: of each drafter, the first quartile over its rounds (many rounds
    pay for a look more than they drafted); of all, the mean over drafted tokens."""
    by_drafter: dict[str, list[RoundTrace]] = {}
    for trace in rounds:
        if trace.proposed:
            by_drafter.setdefault(trace.proposed[0].drafter, []).append(trace)
    seconds = tokens = 0.0
    for drafted in by_drafter.values():
        steps = sorted(trace.seconds.draft / len(trace.proposed) for trace in drafted)
        count = sum(len(trace.proposed) for trace in drafted)
        seconds += count * steps[len(steps) // 4]
        tokens += count
    return seconds / tokens if tokens else 0.0


def merged_hits(records: Sequence[Sequence[bool | None]]) -> list[bool | None]:
    """Of several replies with the same text: what any of them knows."""
    longest = max(map(len, records), default=0)
    merged: list[bool | None] = [None] * longest
    for record in records:
        for place, hit in enumerate(record):
            if hit is not None:
                merged[place] = hit
    return merged
