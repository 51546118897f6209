"""Scripted rounds of replies that end early, and of those that have begun already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine.data.events import FinishReason, Retold, RetoldToken
from engine.data.rounds import RoundTrace


def part_of(
    rounds: Iterable[RoundTrace], begun: Sequence[int], asked: str
) -> tuple[Iterable[Retold | RoundTrace], FinishReason]:
    """What is played, and its end. A message with the word "early" gets half a reply at first.

    Rounds may depend on what happens while they are played: they are taken one by one.
    """
    if begun:
        known = list(rounds)
        return [*retold(known, begun), *after(known, begun)], "eos"
    if "early" in asked:
        known = list(rounds)
        return known[: len(known) // 2], "length"
    return rounds, "context" if "context" in asked else "eos"


def after(rounds: Sequence[RoundTrace], begun: Sequence[int]) -> list[RoundTrace]:
    """Without so many tokens."""
    left, rest = len(begun), []
    for trace in rounds:
        count = len(trace.emitted)
        if left <= 0:
            rest.append(trace)
        elif count > left:
            rest.append(replace(trace, proposed=(), emitted=trace.emitted[left:]))
        left -= count
    return rest


def retold(rounds: Sequence[RoundTrace], begun: Sequence[int]) -> list[Retold]:
    """None of a reply that did not begin as the script does."""
    emitted = [one for trace in rounds for one in trace.emitted][: len(begun)]
    if [one.token for one in emitted] != list(begun):
        return []
    return [Retold(tuple(RetoldToken(one.shown, one.part) for one in emitted))]
