"""From a drafter that goes token by token to a proposal."""

from __future__ import annotations

from engine.drafters.base import DraftRound, StepDrafter
from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, Proposal


def draft_chain(drafter: StepDrafter, round_: DraftRound) -> Proposal:
    """As many tokens as the drafter and the policy allow, each asked for before it is drawn."""
    if not drafter.start(round_) or not round_.policy.may_start():
        return EMPTY_PROPOSAL
    tokens: list[int] = []
    distributions: list[Distribution | None] = []
    for depth in range(1, round_.max_depth + 1):
        if not round_.policy.may_step(depth):
            break
        confidence = drafter.peek()
        if confidence is None:
            break
        if not round_.policy.should_continue(depth, confidence):
            break
        token, q = choose(round_, drafter.distribution(), len(tokens))
        tokens.append(token)
        distributions.append(q)
        drafter.advance(token)
    return Proposal.chain(tokens, drafter.name, distributions, drafter.predictions())


def choose(round_: DraftRound, q: Distribution, drafted: int) -> tuple[int, Distribution | None]:
    """A token after `drafted` others, and the distribution it was drawn from.

    None stands for a point mass: the token was not drawn but chosen as the most likely one.
    """
    if round_.mode == "argmax" or len(q.ids) == 1:
        return q.most_likely(), None
    return round_.stream.draw(q, len(round_.context) + drafted), q
