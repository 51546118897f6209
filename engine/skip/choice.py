"""Which layers an early-exit drafter leaves out: those named, those a search found, or a guess."""

from __future__ import annotations

from pathlib import Path

from engine.data.errors import BadOptionError
from engine.drafters.expression import parse_early_exit
from engine.files.measurements import Measurements
from engine.llama.derived import default_skip
from engine.skip.report import remembered_best
from engine.skip.search import Skip


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
