"""What measured costs mean: how often a drafter has to be right, in numbers and in a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.control.cost import CostModel
from engine.control.speedup import PAYS
from engine.control.tuning import TUNING
from engine.data.loaded import BreakEven

_PATH = re.compile(r"[^(),:]*/|\.gguf")
LENGTHS = (1, 2, 3, 4, 6, 8)
"""Draft lengths that are shown; the page has a row for each."""


def break_evens(
    cost: CostModel, step: float, lengths: Sequence[int] = LENGTHS
) -> tuple[BreakEven, ...]:
    """step: seconds of one draft step."""
    return tuple(_break_even(cost, step, length) for length in lengths)


def _break_even(cost: CostModel, step: float, length: int) -> BreakEven:
    plain = cost.pass_seconds(1)
    # No pass is faster than one of a single row: a measurement that says so is noise.
    rounds = (length * step + max(plain, cost.pass_seconds(length + 1))) / plain
    most = (length + 1) / rounds
    if most <= 1.0:
        return BreakEven(length, None, most)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if sum(middle**depth for depth in range(length + 1)) > rounds:
            high = middle
        else:
            low = middle
    return BreakEven(length, high, most)


def advice(drafter: str, evens: Sequence[BreakEven], spread: float = 0.0) -> str:
    """One sentence on whether this drafter can pay. spread: by what fraction passes of one width
    differed when they were measured."""
    possible = [even for even in evens if even.acceptance is not None and even.most >= PAYS]
    name = f"Drafting with {_PATH.sub('', drafter)}"
    if not possible:
        return (
            f"{name} cannot pay here: checking drafted tokens takes this machine as long as "
            "writing them."
        )
    easiest = min(possible, key=lambda even: even.acceptance or 0.0)
    fastest = max(possible, key=lambda even: even.most)
    needed = easiest.acceptance or 0.0
    tokens = "token" if easiest.length == 1 else "tokens"
    condition = f"with {easiest.length} {tokens} a round, {needed:.0%} have to be right"
    limit = f"at best {fastest.most:.2f} times as fast"
    if fastest.most < PAYS * (1.0 + spread):
        return (
            f"Whether {name[0].lower()}{name[1:]} can pay here is not settled: {limit}, and passes "
            f"that should take alike differed by {spread:.0%}; calibrate on a quieter machine."
        )
    if needed > TUNING.advice.hopeless:
        return f"{name} hardly ever pays here: {condition}, {limit}."
    if needed > TUNING.advice.hard:
        return f"{name} pays only on very predictable text: {condition}, {limit}."
    return f"{name} pays here: {condition}, {limit}."
