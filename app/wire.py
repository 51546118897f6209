"""Round traces in the compact form that the page draws and the conversation file keeps.

A token is [text, kind, drafter, p, q, depth] or the same with a seventh item, the rejected
branches that left the text there, each node after the one it follows: [[text, drafter, p, q,
depth], ...], with a sixth item where it follows another of them: that one's place in the list.
text is what the token adds to the thought or to the answer, "" for a marker between them. kind is
a, c, b or p (accepted, correction, bonus, plain); drafter is an index into the reply's drafter
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engine.data.rounds import EmittedToken, ProposedToken, RoundTrace, TokenKind

KIND_LETTERS: dict[TokenKind, str] = {
    "accepted": "a",
    "correction": "c",
    "bonus": "b",
    "plain": "p",
}

WireToken = list[Any]


class WireEncoder:
    """Encodes the rounds of one reply; `drafters` grows as new names appear."""

    def __init__(self, drafters: Sequence[str] = ()) -> None:
        self.drafters = list(drafters)

    def encode(self, trace: RoundTrace) -> list[WireToken]:
        tokens = [self._token(emitted) for emitted in trace.emitted]
        if not tokens:
            return tokens
        ghosts: list[list[list[Any]]] = [[] for _ in tokens]
        for index, at, followed in rejected_nodes(trace):
            ghost = self._ghost(trace.proposed[index])
            ghosts[at].append(ghost if followed is None else [*ghost, followed])
        for token, tried in zip(tokens, ghosts, strict=True):
            if tried:
                token.append(tried)
        return tokens

    def _token(self, emitted: EmittedToken) -> WireToken:
        return [
            emitted.shown,
            KIND_LETTERS[emitted.kind],
            self._index(emitted.drafter),
            None if emitted.forced else _short(emitted.p),
            _short(emitted.q),
            emitted.depth,
        ]

    def _ghost(self, node: ProposedToken) -> list[Any]:
        return [
            node.text,
            self._index(node.drafter),
            _short(node.p),
            _short(node.q),
            node.depth,
        ]

    def _index(self, drafter: str | None) -> int | None:
        if drafter is None:
            return None
        if drafter not in self.drafters:
            self.drafters.append(drafter)
        return self.drafters.index(drafter)


def rejected_nodes(trace: RoundTrace) -> Iterator[tuple[int, int, int | None]]:
    """In the order of the ghosts: the node, which of the round's tokens it is a ghost of, and the
    place among that one's ghosts of the one that it follows."""
    if not trace.emitted:
        return
    counts = [0] * len(trace.emitted)
    places: dict[int, tuple[int, int]] = {}  # node to its token and its place among the ghosts
    for index in _branches(trace.proposed):
        node = trace.proposed[index]
        if node.parent in places:
            at, followed = places[node.parent]
            yield index, at, followed
        else:  # it leaves the text where the round's token of its depth stands
            at = min(node.depth, len(trace.emitted)) - 1
            yield index, at, None
        places[index] = at, counts[at]
        counts[at] += 1


def _branches(proposed: Sequence[ProposedToken]) -> list[int]:
    """Rejected nodes, each branch in one piece."""
    children: dict[int, list[int]] = {}
    for index, node in enumerate(proposed):
        if not node.accepted:
            children.setdefault(node.parent, []).append(index)
    waiting = [
        index
        for index, node in enumerate(proposed)
        if not node.accepted and (node.parent < 0 or proposed[node.parent].accepted)
    ][::-1]
    order = []
    while waiting:
        order.append(waiting.pop())
        waiting.extend(reversed(children.get(order[-1], [])))
    return order


def text_of(tokens: Sequence[WireToken]) -> str:
    return "".join(token[0] for token in tokens)


def _short(probability: float | None) -> float | None:
    """Four significant digits: enough to read, a third of the bytes."""
    return None if probability is None else float(f"{probability:.4g}")
