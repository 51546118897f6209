"""The filters and calls of a chat template, so that they keep the marks of its text.

Jinja's own filters often build strings in C, where marks are lost. The common ones are written
anew; what any other filter or function makes of typed text counts as typed altogether.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from typing import Any

from jinja2 import Environment, pass_environment
from jinja2.filters import make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, Undefined
from jinja2.utils import Cycler, Joiner

from engine.text.marked import FIRST_STAND_IN, Marked, as_text, followed, joined, marked

CONCAT = "forerun_concat"
"""What a template's `~` becomes; no name that a template can use for something else."""

# Their methods hand out what was put into them, unchanged.
_KEEPERS = (dict, list, tuple, LoopContext, Cycler)
_FOLLOWED = frozenset(
    {"attr", "capitalize", "center", "d", "default", "first", "format", "last", "lower", "max"}
    | {"min", "random", "replace", "reverse", "sum", "trim", "upper"}
)
_ESCAPES = (("&", "&amp;"), (">", "&gt;"), ("<", "&lt;"), ("'", "&#39;"), ('"', "&#34;"))


def spread(function: Callable[[Sequence[Any], Mapping[str, Any]], Any]) -> Callable[..., Any]:
    """A function that a template calls with whatever it likes."""
    return lambda *args, **named: function(args, named)


def guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter of Jinja's. Its text is followed where the filter is known to use nothing but
    methods of Marked, or to hand out what it was given; else it counts as typed.
    """

    def call(args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        given = [marked(one) if isinstance(one, str) else one for one in args]
        result = function(*given, **named)
        is_followed = isinstance(result, Marked) and name in _FOLLOWED
        if is_followed or not isinstance(result, str):
            return result
        return followed(result, all(map(_is_own, (*given, *named.values()))))

    return update_wrapper(spread(call), function)


def called(function: Any, args: Iterable[Any], result: Any) -> Any:
    """The result of a call that a template made."""
    if not isinstance(result, str) or isinstance(result, Marked):
        return result
    owner = getattr(function, "__self__", None)
    if isinstance(function, (Macro, BlockReference)) or isinstance(owner, _KEEPERS):
        return result
    is_function = owner is None or callable(owner) or hasattr(owner, "__loader__")
    return followed(result, is_function and all(map(_is_own, args)))


def _is_own(value: Any) -> bool:
    """Nothing typed can be in it."""
    if isinstance(value, Marked):
        return value.is_own
    harmless = (str, int, float, Undefined, Environment, Context, EvalContext, Joiner)
    return value is None or isinstance(value, harmless)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> Marked:
    """As published templates expect it: plain JSON, not made safe for HTML.

    A string with anything typed in it counts as typed, with its quotes: a character stands for it
    while the JSON is written.
    """

    def dump(one: Any) -> str:
        return json.dumps(
            one,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    texts: dict[str, str] = {}

    def stand_in(one: Any) -> Any:
        if isinstance(one, Marked) and not one.is_own:
            character = chr(FIRST_STAND_IN + len(texts))
            texts[dump(character)] = one
            return character
        if isinstance(one, Mapping):
            return {stand_in(key): stand_in(item) for key, item in one.items()}
        if isinstance(one, (list, tuple)):
            return [stand_in(item) for item in one]
        return one

    whole = dump(value)
    shape = dump(stand_in(value))
    if not texts:
        return followed(whole, own=True)
    parts = re.split("(" + "|".join(map(re.escape, texts)) + ")", shape)
    known = (followed(dump(texts[part]), own=False) if part in texts else part for part in parts)
    result = marked(joined(known))
    return result if result == whole else followed(whole, own=False)


def _join(
    environment: Environment, values: Iterable[Any], d: str = "", attribute: str | None = None
) -> str:
    if attribute is not None:
        values = map(make_attrgetter(environment, attribute), values)
    return marked(as_text(d)).join(map(as_text, values))


def _indent(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Indents all lines, empty ones only if `blank`, the first only if `first`."""
    space = marked(width if isinstance(width, str) else " " * width)
    lines = (marked(as_text(text)) + "\n").splitlines()
    shown = [
        space + line if (line or blank if index else first) else line
        for index, line in enumerate(lines)
    ]
    return marked("\n").join(shown)


def _escape(text: Any) -> str:
    escaped = marked(as_text(text))
    for character, entity in _ESCAPES:
        escaped = escaped.replace(character, entity)
    return escaped


def _concatenated(values: Sequence[Any]) -> str:
    return joined(map(as_text, values))


def filters(environment: Environment) -> dict[str, Callable[..., Any]]:
    """All filters of the environment, keeping marks."""
    known = {name: guarded(name, function) for name, function in environment.filters.items()}
    escapes = dict.fromkeys(("e", "escape", "forceescape"), _escape)
    texts = dict.fromkeys(("string", "safe"), as_text)
    own: dict[str, Callable[..., Any]] = {
        "join": pass_environment(_join),
        "indent": _indent,
        "tojson": to_json,
    }
    return {**known, **escapes, **texts, **own, CONCAT: _concatenated}
