"""Which layers an early-exit drafter leaves out: those named, those a search found, or a guess."""

from __future__ import annotations

from pathlib import Path

from engine.data.errors import BadOptionError
from engine.files.measurements import Measurements
from engine.skip.report import remembered_best
from engine.skip.search import Skip

_MOST_DIGITS = 5


def layers_to_skip(argument: str, file: Path, layers: int, known: Measurements | None) -> Skip:
    """Of early-exit:ARGUMENT for the model in `file`.

    "skip=3+4" names them; "first=E" keeps the first E layers and none of the others (LayerSkip,
    Elhoushi et al. 2024, 2404.16710); "" takes what a search found best for this file.
    """
    if not argument:
        best = remembered_best(known, file, layers) if known is not None else None
        return best or default_skip(layers)
    skip, first = parse_early_exit(argument)
    if first is None:
        return skip
    if first >= layers:
        raise BadOptionError(f"early-exit:first={first}: the target has only {layers} layers")
    return tuple(range(first, layers))


def default_skip(layers: int) -> tuple[int, ...]:
    """About one layer in fifteen, a little before and after the middle.

    More looks tempting but single layers can be vital: on the starter, leaving out 12 and 16 keeps
    78 % of the target's choices, leaving out 11, 15, 19 and 23 only 8 %.
    """
    count = max(1, round(layers / 15))
    first, last = 0.33 * layers, 0.62 * layers
    step = (last - first) / count
    return tuple(sorted({int(first + (index + 0.5) * step) for index in range(count)}))


def parse_early_exit(argument: str) -> tuple[tuple[int, ...], int | None]:
    """The layers to skip and None, or no layers and the number of first layers to keep."""
    name, _, value = argument.partition("=")
    if name != "first":
        return parse_skip(argument), None
    if not is_count(value) or int(value) < 1:
        raise BadOptionError(f"early-exit:{argument} is not of the form early-exit:first=8")
    return (), int(value)


def parse_skip(argument: str) -> tuple[int, ...]:
    """ "skip=10+13+16" to (10, 13, 16)."""
    name, _, value = argument.partition("=")
    parts = value.split("+")
    if name != "skip" or not all(map(is_count, parts)):
        raise BadOptionError(f"early-exit:{argument} is not of the form early-exit:skip=10+13+16")
    return tuple(sorted({int(part) for part in parts}))


def is_count(text: str) -> bool:
    """Whether it is a whole number of few digits, as options have them."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
