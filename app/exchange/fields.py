"""Fields of other programs' files, read leniently: a wrong type is as good as a missing field."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

_LATEST = 253_402_300_799.0
"""The last second of the year 9999."""


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def key(value: Any) -> str | None:
    """An id as text: programs write numbers or words. None when there is none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def seconds(value: Any) -> float | None:
    """A moment since 1970, from seconds, milliseconds, micro- or nanoseconds, or an ISO text."""
    if isinstance(value, str):
        return _written(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    moment = float(value)
    while moment > _LATEST:
        moment /= 1000
    return moment if moment > 0 else None


def attachments(value: Any) -> dict[str, Any]:
    """What is kept of the files of a message: their names, as one of its details."""
    names = [text(table(one).get("name")) or "file" for one in items(value)]
    return {"attachments": names} if names else {}


def _written(value: str) -> float | None:
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return seconds(moment.timestamp())
    except (ValueError, OverflowError):
        return None
