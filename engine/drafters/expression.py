"""Drafter expressions: "model:qwen-coder-0.5b", "ngram", "first(ngram,early-exit:skip=4+5)"."""

from __future__ import annotations

from dataclasses import dataclass

from engine.data.errors import BadOptionError
from engine.drafters.heads_argument import MAX_TREE, HeadsArgument, parse_heads
from engine.drafters.quoting import outside, quoted, unquoted
from engine.skip.choice import parse_early_exit

LEAF_KINDS = ("model", "tli", "ngram", "early-exit", "medusa", "eagle", "eagle3", "mtp", "recycle")
HEAD_KINDS = ("medusa", "eagle", "eagle3")
MOST_NESTED = 16
_MOST_DIGITS = 5
_UNBALANCED = (
    "unbalanced parentheses in the drafter expression; a path with parentheses or commas stands "
    'in quotation marks: model:"/models/a (1), b.gguf"'
)
GROUP_KINDS = ("first", "vote", "mixture", "union", "best", "tree")


@dataclass(frozen=True, slots=True)
class DrafterExpression:
    """kind is a name from LEAF_KINDS (with an argument or "") or GROUP_KINDS (with members).

    argument: without quotation marks, except for heads: see heads_argument. Its text can be parsed
    again. written: how it is shown when the argument was found for a name, else "".
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
        if not self.argument:
            return self.kind
        shown = self.argument if self.kind in HEAD_KINDS else quoted(self.argument)
        return f"{self.kind}:{shown}"

    def leaves(self) -> tuple[DrafterExpression, ...]:
        if not self.members:
            return (self,)
        return tuple(leaf for member in self.members for leaf in member.leaves())

    @property
    def may_branch(self) -> bool:
        """Whether its proposals can be trees."""
        if self.kind in HEAD_KINDS:
            return parse_heads(self.kind, self.argument).nodes > 0
        if self.kind == "recycle":
            return parse_tree(self.argument) > 0
        if self.kind in ("union", "tree"):
            return True
        return any(member.may_branch for member in self.members)


def drafter_text(kind: str, reference: str) -> str:
    """The expression of a drafter that a model or heads are, by id, path or Hub address."""
    argument = str(HeadsArgument(0, reference)) if kind in HEAD_KINDS else reference
    return str(DrafterExpression(kind, argument))


def parse_expression(text: str) -> DrafterExpression:
    """BadOptionError when the text is not a drafter expression."""
    return _parse(text, MOST_NESTED)


def _parse(text: str, levels: int) -> DrafterExpression:
    """levels: of groups that may still follow."""
    text = text.strip()
    head, opened, _ = text.partition("(")
    if opened and text.endswith(")") and ":" not in head:
        if levels == 0:
            raise BadOptionError(f"drafter groups nested deeper than {MOST_NESTED}; write fewer")
        return _parse_group(head.strip(), text[len(head) + 1 : -1], levels - 1)
    kind, _, written = text.partition(":")
    if kind not in LEAF_KINDS:
        raise BadOptionError(
            f"unknown drafter {text[:80]!r}; use model:M, tli:M, ngram, early-exit[:skip=1+2], "
            f"early-exit:first=8, early-exit:NAME, medusa[:F], eagle:F, eagle3[:F], "
            f"mtp, recycle[:tree=24] or a group such as first(D,D)"
        )
    argument = str(parse_heads(kind, written)) if kind in HEAD_KINDS else unquoted(written)
    if kind in ("model", "tli") and not argument:
        raise BadOptionError(f"{kind}: needs a model, for example {kind}:qwen-coder-0.5b")
    if kind in ("ngram", "mtp") and argument:
        raise BadOptionError(f"{kind} takes no argument")
    if kind == "early-exit" and "=" in argument:  # else it is a name
        parse_early_exit(argument)
    if kind == "recycle" and argument:
        parse_tree(argument)
    return DrafterExpression(kind, argument)


def _parse_group(kind: str, inner: str, levels: int) -> DrafterExpression:
    if kind not in GROUP_KINDS:
        known = ", ".join(f"{name}(D,D)" for name in GROUP_KINDS if name != "tree")
        raise BadOptionError(f"unknown drafter group {kind[:80]!r}; known: {known}, tree(D)")
    members = tuple(_parse(part, levels) for part in _split_members(inner))
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
    good = name == "tree" and _is_number(nodes) and 1 <= int(nodes) <= MAX_TREE
    if argument and not good:
        raise BadOptionError(f"recycle:{argument} is not recycle:tree=N with N of 1 to {MAX_TREE}")
    return int(nodes) if argument else 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _split_members(inner: str) -> list[str]:
    """Splits at commas outside parentheses and quotation marks."""
    parts, depth, start = [], 0, 0
    for index, character in outside(inner):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            raise BadOptionError(_UNBALANCED)
        if character == "," and depth == 0:
            parts.append(inner[start:index])
            start = index + 1
    if depth:
        raise BadOptionError(_UNBALANCED)
    parts.append(inner[start:])
    if not all(part.strip() for part in parts):
        raise BadOptionError("an empty drafter in the drafter expression")
    return parts
