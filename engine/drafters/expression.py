"""Drafter expressions: "model:qwen-coder-0.5b", "ngram", "first(ngram,early-exit:skip=4+5)"."""

from __future__ import annotations

from dataclasses import dataclass

from engine.data.errors import BadOptionError
from engine.drafters.heads_argument import MAX_TREE, parse_heads
from engine.skip.choice import parse_early_exit

LEAF_KINDS = ("model", "tli", "ngram", "early-exit", "medusa", "eagle", "eagle3", "mtp", "recycle")
HEAD_KINDS = ("medusa", "eagle", "eagle3")
GROUP_KINDS = ("first", "vote", "mixture", "union", "best", "tree")


@dataclass(frozen=True, slots=True)
class DrafterExpression:
    """kind is a name from LEAF_KINDS (with an argument or "") or GROUP_KINDS (with members).

    written: how it is shown when the argument was found for a name, else "".
    """

    kind: str
    argument: str = ""
    members: tuple[DrafterExpression, ...] = ()
    written: str = ""

    def __str__(self) -> str:
        if self.written:
            return self.written
        if self.members:
            return f"{self.kind}({','.join(map(str, self.members))})"
        return f"{self.kind}:{self.argument}" if self.argument else self.kind

    def leaves(self) -> tuple[DrafterExpression, ...]:
        if not self.members:
            return (self,)
        return tuple(leaf for member in self.members for leaf in member.leaves())

    @property
    def may_branch(self) -> bool:
        """Whether its proposals can be trees."""
        if self.kind in ("union", "tree") or "tree=" in self.argument:
            return True
        return any(member.may_branch for member in self.members)


def parse_expression(text: str) -> DrafterExpression:
    """BadOptionError when the text is not a drafter expression."""
    text = text.strip()
    if text.endswith(")") and "(" in text:
        kind, _, inner = text[:-1].partition("(")
        return _parse_group(kind.strip(), inner)
    kind, _, argument = text.partition(":")
    if kind not in LEAF_KINDS:
        raise BadOptionError(
            f"unknown drafter {text!r}; use model:M, tli:M, ngram, early-exit[:skip=1+2], "
            f"early-exit:first=8, early-exit:NAME, medusa[:F], eagle:F, eagle3[:F], "
            f"mtp, recycle[:tree=24] or a group such as first(D,D)"
        )
    if kind in ("model", "tli") and not argument:
        raise BadOptionError(f"{kind}: needs a model, for example {kind}:qwen-coder-0.5b")
    if kind in ("ngram", "mtp") and argument:
        raise BadOptionError(f"{kind} takes no argument")
    if kind == "early-exit" and "=" in argument:  # else it is a name
        parse_early_exit(argument)
    if kind == "recycle" and argument:
        parse_tree(argument)
    if kind in HEAD_KINDS:
        parse_heads(kind, argument)
    return DrafterExpression(kind, argument)


def _parse_group(kind: str, inner: str) -> DrafterExpression:
    if kind not in GROUP_KINDS:
        known = ", ".join(f"{name}(D,D)" for name in GROUP_KINDS if name != "tree")
        raise BadOptionError(f"unknown drafter group {kind!r}; known: {known}, tree(D)")
    members = tuple(parse_expression(part) for part in _split_members(inner))
    if kind == "tree" and len(members) != 1:
        raise BadOptionError("tree(...) takes one drafter")
    if kind != "tree" and len(members) < 2:
        raise BadOptionError(f"{kind}(...) needs at least two drafters")
    if len(set(members)) < len(members):
        raise BadOptionError(f"{kind}(...) names a drafter twice")
    return DrafterExpression(kind, members=members)


def parse_tree(argument: str) -> int:
    """ "tree=24" to 24 nodes; "" to 0, a chain."""
    name, _, nodes = argument.partition("=")
    good = name == "tree" and nodes.isascii() and nodes.isdigit() and 1 <= int(nodes) <= MAX_TREE
    if argument and not good:
        raise BadOptionError(f"recycle:{argument} is not recycle:tree=N with N of 1 to {MAX_TREE}")
    return int(nodes) if argument else 0


def _split_members(inner: str) -> list[str]:
    """Splits at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            raise BadOptionError("unbalanced parentheses in the drafter expression")
        if character == "," and depth == 0:
            parts.append(inner[start:index])
            start = index + 1
    if depth:
        raise BadOptionError("unbalanced parentheses in the drafter expression")
    parts.append(inner[start:])
    if not all(part.strip() for part in parts):
        raise BadOptionError("an empty drafter in the drafter expression")
    return parts
