"""What a process that trains tells, checked: anything may be written into its output by mistake."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def is_progress(message: Mapping[str, Any]) -> bool:
    """A progress object as in the documentation of `forerun train --json`."""
    heldout = message.get("heldout", False)
    return (
        isinstance(message.get("stage"), str)
        and all(_is_number(message.get(key)) for key in ("done", "total", "seconds"))
        and all(_is_number(message.get(key, False), none=True) for key in ("seconds_left", "loss"))
        and (heldout is None or (isinstance(heldout, list) and all(map(_is_number, heldout))))
    )


def answer_tokens(message: Mapping[str, Any]) -> int | None:
    """Collected so far, by a collector's progress or result; None in any other message."""
    told = message.get("progress") or message.get("result")
    count = told.get("answer_tokens") if isinstance(told, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def card_of(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """The card of a result, in the last message of a training that came to one."""
    card = message.get("card")
    return card if message.get("done") is True and isinstance(card, dict) else None


def _is_number(value: Any, *, none: bool = False) -> bool:
    if value is None:
        return none
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
