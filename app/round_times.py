"""What a reply's rounds took and gave, compactly: `details.rounds`, which the page replays.

A round is [tokens, draft, verify, other, plain, drafted, accepted, reading], the times in tenths of
a millisecond. plain: of a pass over a single token then, 0 where it was not measured. Replies of
earlier versions have the first four of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.control.payoff import RoundCost
from engine.data.rounds import RoundSeconds

UNIT = 1e-4
RoundTimes = list[int]
_FEWEST, _ALL = 4, 8
_MOST = 2**53


def round_times(cost: RoundCost) -> RoundTimes:
    seconds = cost.seconds
    draft, verify, other, plain, reading = (
        round(one / UNIT)
        for one in (seconds.draft, seconds.target, seconds.other, cost.plain, cost.reading)
    )
    return [cost.emitted, draft, verify, other, plain, cost.drafted, cost.accepted, reading]


def are_rounds(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list)
        and len(one) in (_FEWEST, _ALL)
        and all(type(number) is int and 0 <= number <= _MOST for number in one)
        for one in value
    )


def cost_of(times: Sequence[int]) -> RoundCost:
    """Back from what is stored."""
    emitted, draft, verify, other, plain, drafted, accepted, reading = (
        *times,
        *[0] * (_ALL - len(times)),
    )
    seconds = RoundSeconds(draft * UNIT, verify * UNIT, other * UNIT)
    return RoundCost(emitted, seconds, plain * UNIT, drafted, accepted, reading * UNIT)


def rounds_before(rounds: Sequence[RoundTimes], token: int, more: int) -> list[RoundTimes]:
    """Of the tokens before this one, and of `more` in its place. They count for no comparison with
    plain decoding: not all of them came of drafting."""
    kept: list[RoundTimes] = []
    left = token
    for times in rounds:
        if left <= 0:
            break
        kept.append([min(times[0], left), *times[1:_FEWEST]])
        left -= times[0]
    if more:
        kept.append([more, 0, 0, 0])
    return kept


def place_in_round(rounds: Sequence[RoundTimes], token: int) -> int:
    """Of a token among those of its round, from 1; 0 where no round has it."""
    first = 0
    for times in rounds:
        if token < first + times[0]:
            return token - first + 1
        first += times[0]
    return 0
