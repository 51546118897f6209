"""Trees of one fixed shape: which ranks of which depth a proposal tries (Medusa, 2401.10774)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from engine.maths.proposal import ROOT

Choice = tuple[int, ...]
"""A node: the rank (from 0) taken at every depth down to it."""

_FIRST_RANK_RATES = (0.57, 0.33, 0.21, 0.15, 0.12)
"""How often the likeliest token of each depth is right, about what published heads reach."""

_RANK_RATIOS = (1.0, 0.25, 0.13, 0.08, 0.06, 0.045, 0.035, 0.03, 0.025, 0.02)
"""How much rarer the next ranks are right."""


def static_choices(nodes: int, depth: int) -> tuple[Choice, ...]:
    """The `nodes` choices most likely to be right, parents first.

    A choice is right when every rank down to it is; rates are multiplied along the path.
    """
    waiting: list[tuple[float, Choice]] = [(-1.0, ())]
    found: list[Choice] = []
    while waiting and len(found) <= nodes:
        rate, choice = heapq.heappop(waiting)
        found.append(choice)
        if len(choice) < depth:
            first = _FIRST_RANK_RATES[min(len(choice), len(_FIRST_RANK_RATES) - 1)]
            for rank, ratio in enumerate(_RANK_RATIOS):
                heapq.heappush(waiting, (rate * first * ratio, (*choice, rank)))
    return tuple(sorted(found[1 : nodes + 1], key=lambda choice: (len(choice), choice)))


def parents_of(choices: Sequence[Choice]) -> tuple[int, ...]:
    """Parent index of every choice; choices must be parents first and hold every parent."""
    indices = {choice: index for index, choice in enumerate(choices)}
    return tuple(indices[choice[:-1]] if len(choice) > 1 else ROOT for choice in choices)


def leaf_count(choices: Sequence[Choice]) -> int:
    inner = {choice[:-1] for choice in choices}
    return sum(choice not in inner for choice in choices)
