"""Tree attention by sequence ids: one sequence per leaf.

llama.cpp lets a token see the cells of its own first sequence id, so a node that carries the ids
of all leaves below it sees exactly its ancestors (kv_unified contexts only).
"""

from __future__ import annotations

from engine.maths.proposal import Proposal


def tree_sequences(proposal: Proposal) -> list[list[int]]:
    """Sequence ids (from 1) of the root token and of every node, in node order."""
    leaves = proposal.leaves()
    through: list[list[int]] = [list(range(1, len(leaves) + 1))]
    through.extend([] for _ in proposal.tokens)
    for sequence, leaf in enumerate(leaves, start=1):
        for node in proposal.path(leaf):
            through[1 + node].append(sequence)
    return through
