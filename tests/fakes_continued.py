"""Scripted rounds of replies that end early, and of those that have begun already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.data.events import FinishReason, Retold, RetoldToken
from engine.data.rounds import RoundTrace


def part_of(
    rounds: Sequence[RoundTrace], begun: Sequence[int], asked: str
) -> tuple[list[Retold | RoundTrace], FinishReason]:
    """What is played, and its end. A message with the word "early" gets half a reply at first."""
    if begun:
        return [*retold(rounds, begun), *after(rounds, begun)], "eos"
    if "early" in asked:
        return list(rounds[: len(rounds) // 2]), "length"
    return list(rounds), "context" if "context" in asked else "eos"


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
