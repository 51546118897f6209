"""The fastest schedule of draft lengths for a known text: what automatic drafting is compared with.

Given which of the drafter's tokens are right, dynamic programming finds the schedule that takes
least time. It knows which tokens will be kept, so it drafts no other. No policy that decides before
it knows can reach that; the fraction reached is the figure of merit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from engine.data.rounds import RoundTrace


@dataclass(frozen=True, slots=True)
class OracleReport:
    """Seconds of decoding, all from the same costs. known: the fraction of positions where the
    drafter's token is recorded; at the others it counts as wrong.

    Parts of taken_seconds: rejected_seconds is what rejected tokens added to passes, vain_seconds
    what draft steps without a kept token took.
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
    def fraction_of_best(self) -> float:
        """Fraction of the best speed that was reached."""
        return self.best_seconds / self.taken_seconds

    @property
    def short_seconds(self) -> float:
        """Lost where drafts were shorter than the best ones, or there was no draft."""
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
    """Least time for a text. hits: by position, whether the drafter's token there is right.

    A round at position i with d drafted tokens, all hits, takes d * step + T(d + 1) and yields
    d + 1 tokens. Drafting a wrong token never helps, so the best schedule has none.
    """
    passes = [pass_seconds(width + 1) + width * step for width in range(draft_max + 1)]
    best = [0.0] * (len(hits) + 1)
    run = 0  # hits in a row from this position on
    for start in range(len(hits) - 1, -1, -1):
        run = run + 1 if hits[start] else 0
        deepest = min(run, draft_max, len(hits) - start - 1)
        best[start] = min(passes[d] + best[start + d + 1] for d in range(deepest + 1))
    return best[0]


def fixed_seconds(
    hits: Sequence[bool], pass_seconds: Callable[[int], float], step: float, length: int
) -> float:
    """Time for the text with `length` tokens drafted in every round, 0 for plain decoding."""
    position, seconds = 0, 0.0
    while position < len(hits):
        drafted = min(length, len(hits) - position - 1)
        kept = 0
        while kept < drafted and hits[position + kept]:
            kept += 1
        seconds += drafted * step + pass_seconds(drafted + 1)
        position += kept + 1
    return seconds


def recorded_hits(traces: Iterable[RoundTrace]) -> list[bool | None]:
    """By position in the reply, whether the drafter's token is right; None where it is not known.

    From greedy replies with chains: there the drafter's token depends on the text alone, not on
    where a round begins. Rounds of fixed length record most positions, a parked drafter few.
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
    """Compares a recorded reply with the best schedule for its text. Greedy chains only.

    taken: the rounds of automatic drafting. hits: of the same text, from recorded_hits of any of
    its replies, merged by merged_hits. pass_seconds: T(n), used for all schedules, so that noise in
    single passes has no influence. A draft step takes in all schedules what it took in `taken`.
    """
    rounds = list(taken)
    step = _draft_step(rounds)
    right = [hit is True for hit in hits]  # what is not known counts as wrong
    lengths = range(draft_max + 1)
    fixed = {k: fixed_seconds(right, pass_seconds, step, k) for k in lengths}
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
        best_seconds=best_seconds(right, pass_seconds, step, draft_max),
        fixed_seconds=fixed[length],
        fixed_length=length,
    )


def _kept(trace: RoundTrace) -> int:
    return sum(node.accepted for node in trace.proposed)


def _draft_step(rounds: Sequence[RoundTrace]) -> float:
    """Seconds per drafted token. Of one drafter: the first quartile over its rounds, because many
    rounds make one draft step more than they draft tokens. Of all: the mean over drafted tokens."""
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
    """Of several replies with the same text: a position is known if it is in any of them."""
    longest = max(map(len, records), default=0)
    merged: list[bool | None] = [None] * longest
    for record in records:
        for position, hit in enumerate(record):
            if hit is not None:
                merged[position] = hit
    return merged
