"""Prompts for the Lab: the user's own recent ones, pasted ones, or the built-in list."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.data.errors import BadOptionError
from engine.data.prompts import BUILT_IN, TrialPrompt

MOST_PROMPTS = 100
LONGEST = 8_000
"""Characters; a longer prompt would take minutes to read, and says little more."""

_CODE = re.compile(
    r"```|\b(code|function|class|python|javascript|typescript|rust|java|sql|regex|html|css|bash|"
    r"script|compile|compiler|bug|refactor|unit tests?|traceback)\b|\w+\(\)|[{};]\s*$",
    re.IGNORECASE | re.MULTILINE,
)


def chosen_prompts(
    source: str, count: int, pasted: str, recent: Iterable[str]
) -> tuple[TrialPrompt, ...]:
    """source: own, pasted or built-in. At most `count`, each text once, newest first.

    BadOptionError when there are none. Blank lines separate pasted prompts.
    """
    if not 1 <= count <= MOST_PROMPTS:
        raise BadOptionError(f"prompts must be a number between 1 and {MOST_PROMPTS}")
    if source == "built-in":
        return BUILT_IN[:count]
    if source == "own":
        texts, advice = list(recent), "write some messages first, or take the built-in prompts"
    elif source == "pasted":
        texts, advice = re.split(r"\n\s*\n", pasted), "paste at least one prompt"
    else:
        raise BadOptionError(f"unknown prompts {source!r}")
    cleaned = (text.strip()[:LONGEST] for text in texts)
    distinct = list(dict.fromkeys(text for text in cleaned if text))
    if not distinct:
        raise BadOptionError(f"there are no prompts: {advice}")
    return tuple(TrialPrompt(text, kind_of(text)) for text in distinct[:count])


def kind_of(text: str) -> str:
    """code or prose, by its words: only to show figures apart."""
    return "code" if _CODE.search(text) else "prose"
