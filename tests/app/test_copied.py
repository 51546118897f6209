"""Copied tokens of a reply as runs."""

from __future__ import annotations

from app.copied import copied_runs
from engine.data.rounds import CopySource, EmittedToken, RoundSeconds, RoundTrace


def trace(*sources: CopySource | None) -> RoundTrace:
    emitted = tuple(
        EmittedToken(1, "x", "accepted", "ngram", 1.0, None, depth, source=source)
        for depth, source in enumerate(sources, 1)
    )
    return RoundTrace(1, 9, (), emitted, RoundSeconds(0.0, 0.0, 0.0), False)


def test_consecutive_places_are_one_run_and_a_jump_begins_another() -> None:
    here = [CopySource(None, place) for place in (4, 5, 9)]
    assert copied_runs(trace(*here, None, CopySource(2, 10)), 7) == [
        [7, 2, None, 4],
        [9, 1, None, 9],
        [11, 1, 2, 10],
    ]


def test_what_was_not_copied_tells_nothing() -> None:
    assert copied_runs(trace(None, None), 0) == []
