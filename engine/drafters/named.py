"""Names in a drafter expression that stand for files: trained heads, shipped ones, the catalogue's.

"medusa" is the best heads for the target that are here; "medusa:NAME", "eagle3:NAME" and
"early-exit:NAME" are what `forerun train` made under that name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.data.errors import UnknownModelError
from engine.drafters.expression import DrafterExpression
from engine.drafters.heads_argument import parse_heads
from engine.models.trained import TRAINED_KINDS, TrainedDrafter

Find = Callable[[str, str], TrainedDrafter | None]


def resolved(
    expression: DrafterExpression, find: Find, listed: Callable[[str], str]
) -> DrafterExpression:
    """The expression with files for names; it is still shown as it was written.

    find(kind, name) finds what was trained for the target, listed(kind) a reference of the
    catalogue's heads for it, "" for none. UnknownModelError, IncompatiblePairError.
    """
    if expression.members:
        members = tuple(resolved(member, find, listed) for member in expression.members)
        return replace(expression, members=members)
    kind = expression.kind
    if kind not in TRAINED_KINDS:
        return expression
    if kind == "early-exit":
        return _early_exit(expression, find)
    heads = parse_heads(kind, expression.argument)
    file = heads.file
    if file and Path(file).expanduser().exists():
        return expression
    trained = find(kind, file)
    reference = str(trained.weights) if trained else file or listed(kind)
    if not reference or reference == file:
        return expression
    argument = str(replace(heads, file=reference))
    return replace(expression, argument=argument, written=str(expression))


def _early_exit(expression: DrafterExpression, find: Find) -> DrafterExpression:
    """A trained one is a model of its own; "skip=..." and the like are options, no names."""
    name = expression.argument
    if not name or "=" in name:
        return expression
    trained = find("early-exit", name)
    if trained is None:
        raise UnknownModelError(
            f"there is no early-exit drafter {name!r}; make one with "
            f"`forerun train early-exit --out {name}`, or write early-exit:skip=10+13"
        )
    return DrafterExpression("model", str(trained.weights), written=str(expression))
