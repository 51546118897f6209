"""All kinds of drafters, one line each; the page lists those without a file in this order."""

from __future__ import annotations

from collections.abc import Mapping

from engine.data.errors import BadOptionError
from engine.drafters.ensembles.best import Best
from engine.drafters.ensembles.first import First
from engine.drafters.ensembles.mixture import Mixture
from engine.drafters.ensembles.tree import Tree
from engine.drafters.ensembles.union import Union
from engine.drafters.ensembles.vote import Vote
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterKind, DrafterPlan, PlanContext
from engine.drafters.kinds.eagle import Eagle
from engine.drafters.kinds.eagle3 import Eagle3
from engine.drafters.kinds.early_exit import EarlyExit
from engine.drafters.kinds.medusa import Medusa
from engine.drafters.kinds.model import Model
from engine.drafters.kinds.mtp import Mtp
from engine.drafters.kinds.ngram import Ngram
from engine.drafters.kinds.recycle import Recycle
from engine.drafters.kinds.tli import AcrossTokenizers

KINDS: tuple[DrafterKind, ...] = (
    Model(),
    AcrossTokenizers(),
    Ngram(),
    EarlyExit(),
    Medusa(),
    Eagle(),
    Eagle3(),
    Mtp(),
    Recycle(),
    First(),
    Vote(),
    Mixture(),
    Union(),
    Best(),
    Tree(),
)
_BY_NAME: Mapping[str, DrafterKind] = {kind.name: kind for kind in KINDS}


def kind_of(name: str) -> DrafterKind | None:
    """By its name in expressions, None for one that does not exist."""
    return _BY_NAME.get(name)


def kind_named(name: str) -> DrafterKind:
    """BadOptionError for a kind that does not exist."""
    kind = kind_of(name)
    if kind is None:
        raise BadOptionError(f"unknown drafter {name[:80]!r}; use {usages()}")
    return kind


def usages() -> str:
    """How drafters are written, for messages."""
    alone = ", ".join(kind.usage for kind in KINDS if not kind.is_group)
    groups = ", ".join(kind.usage for kind in KINDS if kind.is_group)
    return f"{alone} or a group: {groups}"


def plan_drafter(expression: DrafterExpression, context: PlanContext) -> DrafterPlan:
    """Works a drafter out once. Raises a RequestError or ModelFileError that says what is wrong."""
    members = tuple(plan_drafter(member, context) for member in expression.members)
    return kind_named(expression.kind).plan(expression, context, members)
