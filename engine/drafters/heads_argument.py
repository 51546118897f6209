"""The argument of heads of the target: "F", "tree=24:F", or "" for the catalogue's heads.

F may stand in quotation marks, and does so where it must: it may hold any character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.data.errors import BadOptionError
from engine.drafters.quoting import MARK, quoted, unquoted

MAX_TREE = 64
"""Nodes; a target's pass is never wider."""

_TREE = re.compile(r"tree=(?P<nodes>[^:]*)(?::(?P<file>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HeadsArgument:
    """nodes: of a tree, 0 for a chain. file: path of the heads, "" for the catalogue's."""

    nodes: int
    file: str

    def __str__(self) -> str:
        """As parse_heads reads it."""
        file = quoted(self.file)
        if file.startswith("tree="):
            file = f"{MARK}{file}{MARK}"
        parts = [f"tree={self.nodes}"] if self.nodes else []
        return ":".join(parts + [file] * bool(file))


def parse_heads(kind: str, argument: str) -> HeadsArgument:
    """BadOptionError when the tree has an impossible size."""
    match = _TREE.fullmatch(argument)
    if match is None:
        return HeadsArgument(0, unquoted(argument))
    nodes = match["nodes"]
    digits = nodes.isascii() and nodes.isdigit() and len(nodes) <= len(str(MAX_TREE))
    if not digits or not 1 <= int(nodes) <= MAX_TREE:
        raise BadOptionError(f"{kind}:tree=N:FILE needs a tree of 1 to {MAX_TREE} nodes")
    return HeadsArgument(int(nodes), unquoted(match["file"] or ""))
