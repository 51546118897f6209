"""A drafter as the page chooses it: a row of the list, and what is set of it.

The page never reads or writes expressions: they are made here of what was chosen, and split here
into what the page shows as chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.data.errors import BadOptionError
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterSettings
from engine.drafters.parse import parse_expression
from engine.drafters.registry import kind_named

_SIBLINGS = "tree"
"""The group of one that adds next-best tokens."""


@dataclass(frozen=True, slots=True)
class ChosenDrafter:
    """value: of the row. tree, layers: as in DrafterSettings. siblings: next-best tokens beside
    its draft."""

    value: str
    tree: int = 0
    layers: str = ""
    siblings: bool = False

    def expression(self) -> str:
        """BadOptionError when it has no such settings; a drafter without any stays as it is."""
        settings = DrafterSettings(self.tree, self.layers)
        if settings == DrafterSettings() and not self.siblings:
            return self.value
        expression = parse_expression(self.value)
        expression = kind_named(expression.kind).tuned(expression, settings)
        if self.siblings:
            expression = DrafterExpression(_SIBLINGS, members=(expression,))
        return str(parse_expression(str(expression)))  # checked as if it had been typed


def chosen_from(text: str) -> ChosenDrafter:
    """What is chosen where this expression is; the text itself where it cannot be split."""
    try:
        expression = parse_expression(text)
    except BadOptionError:
        return ChosenDrafter(text)
    siblings = expression.kind == _SIBLINGS
    inner = expression.members[0] if siblings else expression
    plain, settings = kind_named(inner.kind).untuned(inner)
    if settings == DrafterSettings() and not siblings:
        return ChosenDrafter(text)
    return ChosenDrafter(str(plain), settings.tree, settings.layers, siblings)


def chosen_json(drafters: Sequence[str]) -> list[dict[str, Any]]:
    """For the page."""
    return [asdict(chosen_from(drafter)) for drafter in drafters]


def expressions(chosen: Sequence[str | dict[str, Any]]) -> tuple[str, ...]:
    """Of what a request chooses: expressions, or tables as above, checked in app/requests.py."""
    return tuple(one if isinstance(one, str) else _of_table(one) for one in chosen)


def _of_table(table: dict[str, Any]) -> str:
    given = {name: value for name, value in table.items() if value is not None}
    return ChosenDrafter(**given).expression()
