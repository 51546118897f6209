"""What stands in a chat template, without rendering it: variables, levels, texts.

Runs where templates are rendered: parsing a hostile one can end the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.meta import find_undeclared_variables

from engine.text.chat_sandbox import parsed


def look(source: str, names: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """Those of `names` that the template asks for, those of `texts` that it writes or looks for,
    and the literals that each of the names is compared with.

    Raises what Jinja raises when the source does not parse.
    """
    tree = parsed(source)
    written = "\0".join(_literals(tree))
    compared = _compared(tree, names)
    asked = find_undeclared_variables(tree)  # last: it changes the tree
    return {
        "names": [name for name in names if name in asked],
        "texts": [text for text in texts if text in written],
        "compared": compared,
    }


def _literals(tree: nodes.Template) -> Iterator[str]:
    for data in tree.find_all(nodes.TemplateData):
        yield data.data
    for constant in tree.find_all(nodes.Const):
        if isinstance(constant.value, str):
            yield constant.value


def _compared(tree: nodes.Template, names: Sequence[str]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in names}
    for compare in tree.find_all(nodes.Compare):
        if not isinstance(compare.expr, nodes.Name) or compare.expr.name not in found:
            continue
        values = found[compare.expr.name]
        for operand in compare.ops:
            for constant in _constants(operand.expr):
                if constant not in values:
                    values.append(constant)
    return found


def _constants(node: nodes.Expr) -> Iterator[str]:
    items = node.items if isinstance(node, (nodes.List, nodes.Tuple)) else [node]
    for item in items:
        if isinstance(item, nodes.Const) and isinstance(item.value, str):
            yield item.value
