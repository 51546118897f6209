"""Checks what a file says of a reply before the page draws it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.round_times import are_rounds
from app.thoughts import answer_of
from app.wire import KIND_LETTERS, WireToken

_KINDS = tuple(KIND_LETTERS.values())  # what is compared may be of any type
_TOKEN_ITEMS, _GHOST_ITEMS = (6, 7), (5, 6)
_DEEPEST = 100_000


def sound_tokens(
    tokens: Sequence[Any], content: str, details: dict[str, Any]
) -> Sequence[WireToken]:
    """The tokens when each can be drawn and the answer's are the text, else none of them."""
    drafters = details.get("drafters")
    count = len(drafters) if isinstance(drafters, list) else 0
    sound = all(_is_token(token, count) for token in tokens)
    return tokens if sound and answer_of(tokens, sound_details(details)) == content else ()


def sound_details(details: dict[str, Any]) -> dict[str, Any]:
    """Without what the page knows and would find in a form that it cannot draw."""
    return {
        name: value
        for name, value in details.items()
        if name not in _OF_THE_MOMENT and _KNOWN.get(name, _anything)(value)
    }


def _is_token(token: Any, drafters: int) -> bool:
    if not isinstance(token, list) or len(token) not in _TOKEN_ITEMS:
        return False
    text, kind, drafter, p, q, depth = token[:6]
    if kind not in _KINDS or not _is_drawn(text, drafter, p, q, depth, drafters=drafters):
        return False
    ghosts = token[6] if len(token) > 6 else []
    return isinstance(ghosts, list) and all(
        _is_ghost(ghost, place, drafters) for place, ghost in enumerate(ghosts)
    )


def _is_ghost(ghost: Any, place: int, drafters: int) -> bool:
    """One that follows another names a place before its own."""
    if not isinstance(ghost, list) or len(ghost) not in _GHOST_ITEMS:
        return False
    follows = len(ghost) == 5 or _is_whole(ghost[5], place - 1)
    return follows and _is_drawn(*ghost[:5], drafters=drafters)


def _is_drawn(text: Any, drafter: Any, p: Any, q: Any, depth: Any, *, drafters: int) -> bool:
    return (
        isinstance(text, str)
        and (drafter is None or _is_whole(drafter, drafters - 1))
        and (depth is None or _is_whole(depth, _DEEPEST))
        and all(one is None or (_is_number(one) and 0 <= one <= 1) for one in (p, q))
    )


def _is_whole(value: Any, most: int = 2**53) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_error(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(value.get(key)) for key in ("kind", "message"))


def _is_thought(value: Any) -> bool:
    if not isinstance(value, dict) or not all(_is_whole(value.get(key)) for key in ("from", "to")):
        return False
    is_range = bool(value["from"] <= value["to"]) and _is_number(value.get("seconds"))
    return is_range and value.get("ended", "asked") in ("asked", "budget")


def _is_stats(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    numbers = (value.get(name) for name in _NUMBERS)
    rates = (value.get(name) for name in _RATES)
    by_position = (value.get(f"{name}_by_position") for name in ("proposed", "accepted"))
    counts = (value.get("by_drafter"), value.get("members", {}))
    return (
        all(_is_number(one) for one in numbers)
        and all(one is None or _is_number(one) for one in rates)
        and all(isinstance(one, list) and all(map(_is_number, one)) for one in by_position)
        and all(isinstance(one, dict) and all(map(_are_counts, one.values())) for one in counts)
    )


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_number(one) for one in value.values())


def _is_payoff(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("why"), str):
        return False
    known = [value.get(name) for name in ("speed_up", "low", "high", "saved")]
    all_or_none = all(map(_is_number, known)) or known == [None] * 4
    return all_or_none and _is_number(value.get("plain")) and value["plain"] > 0


def _are_runs(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list)
        and len(one) == 4
        and all(_is_whole(number) for number in (one[0], one[1], one[3]))
        and (one[2] is None or _is_whole(one[2]))
        for one in value
    )


def _anything(value: Any) -> bool:
    return True


_NUMBERS: tuple[str, ...] = (
    *("emitted", "rounds", "parked_rounds", "proposed", "accepted", "prefill_seconds"),
    *("decode_seconds", "target_seconds", "draft_seconds", "overhead_seconds"),
)
_RATES = ("acceptance_rate", "mean_accepted_length", "tokens_per_second")
_OF_THE_MOMENT = frozenset({"unsaved", "earlier"})
"""What is true of a reply only where it was written."""
_KNOWN: dict[str, Callable[[Any], bool]] = {
    "model": _is_text,
    "drafters": _are_texts,
    "notices": _are_texts,
    "finish": _is_text,
    "error": _is_error,
    "reasoning": _is_thought,
    "stats": _is_stats,
    "payoff": _is_payoff,
    "rounds": are_rounds,
    "copied": _are_runs,
    "seed": _is_whole,
    "prompt_tokens": _is_whole,
    "reused_prompt_tokens": _is_whole,
    "exact": _is_flag,
    "identical": _is_flag,
}
