"""What one round of the loop did, before it is made a trace of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.data.rounds import CopySource, RoundSeconds
from engine.maths.acceptance import Verdict
from engine.maths.distribution import Distribution
from engine.maths.proposal import Proposal


@dataclass(frozen=True, slots=True)
class Round:
    """One propose - verify - commit cycle. position: tokens in the context before it.

    targets: p after the last token of the context and after every node of the proposal. tokens:
    what it added to the context. ends: whether the last of them ends the reply.
    sources: by drafter and path of tokens below the context, where it read the last one.
    forced: the token was given, not drawn.
    """

    position: int
    proposal: Proposal
    verdict: Verdict
    targets: tuple[Distribution, ...]
    tokens: tuple[int, ...]
    ends: bool
    seconds: RoundSeconds
    sources: Mapping[tuple[str, tuple[int, ...]], CopySource] = field(default_factory=dict)
    forced: bool = False


def cut_at_end(
    proposal: Proposal,
    verdict: Verdict,
    ends_generation: Callable[[int], bool],
    room: int,
) -> tuple[tuple[int, ...], bool]:
    """The tokens that a verdict adds, up to the reply's end, and whether it is there."""
    tokens = (*(proposal.tokens[node] for node in verdict.path), verdict.token)[:room]
    for index, token in enumerate(tokens):
        if ends_generation(token):
            return tokens[: index + 1], True
    return tokens, False
