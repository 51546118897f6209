"""Numbers on the command line, with the range that makes sense: types for argparse."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """A whole number from `low` to `high`, if there is a highest one."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(_range(low, high))
        return value

    return parse


def above_zero(text: str) -> float:
    """A number above 0 that is not endless."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _range(low: int, high: int | None) -> str:
    if high is None:
        return "must be above 0" if low == 1 else f"must be at least {low:,}"
    return f"must be from {low:,} to {high:,}"
