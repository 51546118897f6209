"""From text to a drafter expression: "first(ngram,model:qwen-coder-0.5b)"."""

from __future__ import annotations

from engine.data.errors import BadOptionError
from engine.drafters.ensembles.group_kind import GroupKind
from engine.drafters.expression import DrafterExpression
from engine.drafters.quoting import outside
from engine.drafters.registry import kind_of, usages

MOST_NESTED = 16
_UNBALANCED = (
    "unbalanced parentheses in the drafter expression; a path with parentheses or commas stands "
    'in quotation marks: model:"/models/a (1), b.gguf"'
)


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
    name, _, written = text.partition(":")
    kind = kind_of(name)
    if kind is None and (text.endswith(".gguf") or "/" in text or "\\" in text):
        raise BadOptionError(
            f"{text[:80]!r} is no drafter; write model:M, in quotation marks where a path holds "
            'commas or parentheses: model:"/models/a (1), b.gguf"'
        )
    if kind is None:
        raise BadOptionError(f"unknown drafter {text[:80]!r}; use {usages()}")
    return DrafterExpression(kind.name, kind.normal(written))


def _parse_group(name: str, inner: str, levels: int) -> DrafterExpression:
    kind = kind_of(name)
    if not isinstance(kind, GroupKind):
        raise BadOptionError(f"unknown drafter group {name[:80]!r}; use {usages()}")
    members = tuple(_parse(part, levels) for part in _split_members(inner))
    expression = DrafterExpression(kind.name, members=members)
    kind.check(expression)
    return expression


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
