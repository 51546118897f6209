"""The argument of heads of the target: "F", "tree=24:F", or "" for the catalogue's heads."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.data.errors import BadOptionError

MAX_TREE = 64
"""Nodes; a target's pass is never wider."""

_TREE = re.compile(r"tree=(?P<nodes>[^:]*)(?::(?P<file>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HeadsArgument:
    """nodes: of a tree, 0 for a chain. file: path of the heads, "" for the catalogue's."""

    nodes: int
    file: str


def parse_heads(kind: str, argument: str) -> HeadsArgument:
    """BadOptionError when the tree has an impossible size."""
    match = _TREE.fullmatch(argument)
    if match is None:
        return HeadsArgument(0, argument)
    nodes = match["nodes"]
    if not nodes.isascii() or not nodes.isdigit() or not 1 <= int(nodes) <= MAX_TREE:
        raise BadOptionError(f"{kind}:tree=N:FILE needs a tree of 1 to {MAX_TREE} nodes")
    return HeadsArgument(int(nodes), match["file"] or "")
