"""Drafter expressions: "model:qwen-coder-0.5b", "ngram", "first(ngram,early-exit:skip=4+5)"."""

from __future__ import annotations

from dataclasses import dataclass

from engine.drafters.heads_argument import HeadsArgument
from engine.drafters.quoting import quoted

HEAD_KINDS = ("medusa", "eagle", "eagle3")
"""Whose argument may hold a tree before the file, so that it is kept as it is written."""


@dataclass(frozen=True, slots=True)
class DrafterExpression:
    """kind: a name from the registry. argument: of a kind that stands alone; members: of a group.

    argument: without quotation marks, except for heads (engine/drafters/heads_argument.py). The
    text of an expression can be parsed again.
    """

    kind: str
    argument: str = ""
    members: tuple[DrafterExpression, ...] = ()

    def __str__(self) -> str:
        if self.members:
            return f"{self.kind}({','.join(map(str, self.members))})"
        if not self.argument:
            return self.kind
        shown = self.argument if self.kind in HEAD_KINDS else quoted(self.argument)
        return f"{self.kind}:{shown}"

    def leaves(self) -> tuple[DrafterExpression, ...]:
        if not self.members:
            return (self,)
        return tuple(leaf for member in self.members for leaf in member.leaves())


def drafter_text(kind: str, reference: str) -> str:
    """The expression of a drafter that a model or heads are, by id, path or Hub address."""
    argument = str(HeadsArgument(0, reference)) if kind in HEAD_KINDS else reference
    return str(DrafterExpression(kind, argument))
