"""Did drafting pay: what a reply's rounds took beside what plain decoding would have taken.

Plain decoding takes one pass of a single row a token. A round without a draft is such a pass, so
it counts as it was; a wider one is compared with what such a pass takes at its place just then
(`RoundTrace.plain`, from the measured costs and the late passes). All that drafting takes is
included: drafting, wider passes, bringing back recurrent states, the drafter's reading of the
prompt.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.control.speedup import HURTS, most_speedup, pass_ratios, student
from engine.data.rounds import RoundSeconds, RoundTrace

FEWEST_ROUNDS = 8
FEWEST_TOKENS = 24
_LEAST_DOUBT = 0.02
"""Of T(1), as a share: no clock of a shared machine is better."""
_MOST_OTHER = 0.1
"""Of T(1): what plain decoding takes besides its pass at most; the rest belongs to drafts."""
_FEW_DRAFTS = 0.25
"""Drafted tokens a round below which there was nothing to draft."""


@dataclass(frozen=True, slots=True)
class Payoff:
    """speed_up: times as fast as plain decoding, with the bounds of its 95 % interval; all None
    while there are too few rounds. saved: seconds, negative where drafting cost more.

    plain: seconds that plain decoding takes for a token. why: one sentence where drafting did
    not pay, else "".
    """

    speed_up: float | None
    low: float | None
    high: float | None
    saved: float | None
    plain: float
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What a round took and gave. plain: see RoundTrace, 0 where it was not measured."""

    emitted: int
    seconds: RoundSeconds
    plain: float
    drafted: int
    accepted: int
    reading: float

    @classmethod
    def of(cls, trace: RoundTrace) -> RoundCost:
        return cls(
            len(trace.emitted),
            trace.seconds,
            trace.plain or 0.0,
            len(trace.proposed),
            sum(node.accepted for node in trace.proposed),
            trace.reading,
        )


@dataclass(frozen=True, slots=True)
class _Round:
    """plain, taken, draft: seconds; pass_: of the target's pass, one: of a pass of one row."""

    plain: float
    taken: float
    draft: float
    pass_: float
    one: float
    width: int
    emitted: int


class PayoffMeter:
    """Adds up the rounds of one reply. `payoff` may be asked at any time."""

    def __init__(self) -> None:
        self._rounds: list[_Round] = []
        self._reading = 0.0
        self._accepted = 0

    def add(self, cost: RoundCost) -> None:
        """Rounds of which nothing was measured are passed over."""
        if not cost.plain > 0.0 or not cost.emitted:
            return
        seconds, width = cost.seconds, 1 + cost.drafted
        one = seconds.target if width == 1 else cost.plain
        other = seconds.other if width == 1 else min(seconds.other / width, _MOST_OTHER * one)
        plain = cost.emitted * (one + other)
        taken = seconds.total
        self._reading += cost.reading
        self._accepted += cost.accepted
        self._rounds.append(
            _Round(plain, taken, seconds.draft, seconds.target, one, width, cost.emitted)
        )

    @property
    def payoff(self) -> Payoff | None:
        """None where nothing was drafted or nothing is known of what plain decoding takes."""
        rounds = self._rounds
        draft = sum(one.draft for one in rounds) + self._reading
        if not rounds or (all(one.width == 1 for one in rounds) and not draft > 0.0):
            return None
        emitted = sum(one.emitted for one in rounds)
        plain = sum(one.plain for one in rounds)
        taken = sum(one.taken for one in rounds) + self._reading
        token = plain / emitted
        if len(rounds) < FEWEST_ROUNDS or emitted < FEWEST_TOKENS or not taken > 0.0:
            return Payoff(None, None, None, None, token)
        raw = math.log(plain / taken)
        most = most_speedup(emitted, len(rounds), [one.width for one in rounds], self._ratios())
        held = raw if most is None else min(raw, math.log(most))
        half = math.hypot(_half(rounds, plain / taken, taken), self._doubt(), raw - held)
        mean, high = math.exp(held), math.exp(held + half)
        if most is not None:
            high = max(mean, min(high, most))
        why = self._why(draft) if mean <= HURTS else ""
        return Payoff(mean, math.exp(held - half), high, taken * (mean - 1.0), token, why)

    def _ratios(self) -> dict[int, float]:
        """What wide passes take at least, in passes of one row."""
        wide = [(one.width, one.pass_) for one in self._rounds if one.width > 1]
        return pass_ratios([*((1, one.one) for one in self._rounds), *wide])

    def _doubt(self) -> float:
        """Of what plain decoding takes, as a share: how much T(1) moved meanwhile, for the rounds
        in which it is not measured itself."""
        wide = [one for one in self._rounds if one.width > 1]
        if not wide:
            return 0.0
        mean = statistics.fmean(one.one for one in wide)
        moved = math.sqrt(statistics.fmean((one.one - mean) ** 2 for one in wide)) / mean
        part = sum(one.plain for one in wide) / sum(one.plain for one in self._rounds)
        return part * max(_LEAST_DOUBT, moved)

    def _why(self, draft: float) -> str:
        """The largest cause, in numbers."""
        rounds = self._rounds
        count = len(rounds)
        drafted = sum(one.width - 1 for one in rounds)
        kept = self._accepted
        one = statistics.fmean(each.one for each in rounds)
        passes = sum(each.pass_ for each in rounds) / count / one
        if drafted < _FEW_DRAFTS * count:
            return (
                f"The text gave little to draft: {drafted} tokens in {count} rounds, "
                "and looking for them took time."
            )
        if passes >= 1.0 + drafted / count:
            return (
                "Checking drafts takes this machine as long as writing: a pass over "
                f"{1 + drafted / count:.1f} tokens takes {passes:.1f} times one over one token."
            )
        gained = kept * one - (passes - 1.0) * count * one
        if gained > 0.0:
            return (
                f"Drafting itself is too dear: it took {draft:.1f} s, "
                f"and its tokens saved {gained:.1f} s."
            )
        return (
            f"The drafts are too seldom right: {kept} of {drafted} tokens ({kept / drafted:.0%}), "
            f"while each pass takes {passes:.1f} times a plain one."
        )


def _half(rounds: Sequence[_Round], ratio: float, taken: float) -> float:
    """Half the interval of the ratio of two sums, in logarithms: how evenly the rounds gain."""
    count = len(rounds)
    gaps = sum((one.plain - ratio * one.taken) ** 2 for one in rounds)
    error = math.sqrt(count / (count - 1) * gaps) / taken
    return student(count - 1) * error / ratio
