"""The seconds of a reply's rounds, compactly: `details.rounds`, which the page replays.

A round is [tokens, draft, verify, other], the times in tenths of a millisecond.
"""

from __future__ import annotations

from engine.data.rounds import RoundTrace

UNIT = 1e-4
RoundTimes = list[int]


def round_times(trace: RoundTrace) -> RoundTimes:
    seconds = (trace.seconds.draft, trace.seconds.target, trace.seconds.other)
    return [len(trace.emitted), *(round(one / UNIT) for one in seconds)]
