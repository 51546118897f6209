"""What staying inside one class of widths costs, from measured passes."""

from __future__ import annotations

from collections.abc import Mapping

from engine.data.widths import WidthClass

_ACCEPTANCES = tuple((index + 0.5) / 20 for index in range(20))
_STEPS = (0.0, 0.15)
"""Of a draft step, as a share of T(1): lookups, and small models."""


def seconds_per_token(passes: Mapping[int, float], widths: WidthClass) -> tuple[float, ...]:
    """Of drafting as far as pays, plain where nothing does, at a range of acceptance rates.

    passes: T(n) by width n, T(1) and the widths of the class among them. The same range for every
    drafter, so that a target has one class and one text whatever drafts for it.
    """
    return tuple(
        min(
            (drafted * step * passes[1] + passes[widths.filled(1 + drafted)])
            / sum(acceptance**depth for depth in range(drafted + 1))
            for drafted in range(widths.widest)
        )
        for acceptance in _ACCEPTANCES
        for step in _STEPS
    )


def mean_seconds(passes: Mapping[int, float], widths: WidthClass) -> float:
    found = seconds_per_token(passes, widths)
    return sum(found) / len(found)


def added_cost(passes: Mapping[int, float], widths: WidthClass) -> float:
    """The share by which text takes longer than with passes of any width, 0 for nothing: of plain
    text, or of drafted text if that suffers more."""
    plain = passes[widths.filled(1)] / passes[1]
    free = seconds_per_token(passes, WidthClass(tuple(sorted(passes))))
    bound = seconds_per_token(passes, widths)
    drafted = sum(b / f for b, f in zip(bound, free, strict=True)) / len(free)
    return max(plain, drafted) - 1.0


def filled_up(passes: Mapping[int, float], widths: WidthClass) -> dict[int, float]:
    """What a pass of so many rows takes when it is filled up to a width of the class."""
    return {rows: passes[widths.filled(rows)] for rows in range(1, widths.widest + 1)}
