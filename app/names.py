"""What a drafter is called: everywhere as in the list of drafters. The page has the same rules."""

from __future__ import annotations

import re
from collections.abc import Mapping

from engine.data.errors import BadOptionError
from engine.drafters.expression import HEAD_KINDS, DrafterExpression
from engine.drafters.heads_argument import HeadsArgument, parse_heads
from engine.drafters.parse import parse_expression
from engine.drafters.registry import kind_named

_FOLDERS = re.compile(r".*[/\\]")


def drafter_name(text: str, labels: Mapping[str, str]) -> str:
    """labels: what entries of the list are called, by their expressions."""
    try:
        return _name(parse_expression(text), labels)
    except BadOptionError:
        return text  # of an older chat, or of another program


def _name(expression: DrafterExpression, labels: Mapping[str, str]) -> str:
    text = str(expression)
    if text in labels:
        return labels[text]
    names = [_name(member, labels) for member in expression.members]
    if expression.kind == "tree":
        return f"{names[0]} with siblings"
    kind = kind_named(expression.kind)
    if kind.is_group:
        return f"{expression.kind} of {', '.join(names)}"
    if expression.kind in HEAD_KINDS:
        return _heads(expression, labels)
    if kind.model_of(expression) is not None:
        return _file(expression.argument)
    shown = expression.argument.replace("tree=", "tree of ")
    return f"{kind.label}, {shown}" if shown else kind.label


def _heads(expression: DrafterExpression, labels: Mapping[str, str]) -> str:
    heads = parse_heads(expression.kind, expression.argument)
    plain = str(DrafterExpression(expression.kind, str(HeadsArgument(0, heads.file))))
    name = labels.get(plain) or _file(heads.file) or expression.kind
    return f"{name}, tree of {heads.nodes}" if heads.nodes else name


def _file(reference: str) -> str:
    return _FOLDERS.sub("", reference).removesuffix(".gguf")
