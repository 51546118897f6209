"""A round of a scripted engine whose proposal is a tree."""

from __future__ import annotations

from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace

TREE = (
    ("Trees", -1, True),
    ("Bushes", -1, False),
    (" grow", 1, False),
    (" are", 0, True),
    (" stand", 1, False),
    (" were", 0, False),
    (" cut", 3, False),
    (" tall", 2, False),
    (" down", 6, False),
)
"""Text, parent and fate of the nodes of one proposal, mixed as trees come."""


def tree_script() -> list[RoundTrace]:
    """One round with TREE, of which two tokens are accepted and one is corrected."""
    depths: list[int] = []
    for _, parent, _ in TREE:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    proposed = tuple(
        ProposedToken(i, text, parent, depth, "tree(ngram)", 0.25, None, accepted)
        for i, ((text, parent, accepted), depth) in enumerate(zip(TREE, depths, strict=True))
    )
    emitted = (
        EmittedToken(0, "Trees", "accepted", "tree(ngram)", 0.5, None, 1),
        EmittedToken(3, " are", "accepted", "tree(ngram)", 0.5, None, 2),
        EmittedToken(9, " green", "correction", None, 0.5, None, None),
    )
    return [RoundTrace(1, 10, proposed, emitted, RoundSeconds(0.01, 0.02, 0.0), False)]
