"""Verification rules: which proposed tokens stay, and which token follows them. Pure functions.

p is the target's distribution, q the draft's, both after the request's temperature and
truncation. Every rule but the last leaves the law of the emitted tokens equal to p's, provided
that q is the distribution a token was really drawn from and a drafter decides to stop before it
draws.

- point-mass: one sample of p at every node, the walk goes on while it meets a child.
- ratio: accept with min(1, p/q), else the residual (Leviathan et al. 2023, 2211.17192).
- block: the whole chain is tested as one block (Sun et al. 2024, 2403.10444, algorithm 2).
- multi-candidate: siblings one after another, each against what the earlier ones left of p
  (Miao et al. 2023, 2305.09781; without replacement: Chen et al. 2024, 2402.12374).
- typical: not exact, see engine.maths.typical.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.data.request import Acceptance, Coupling
from engine.maths.distribution import Distribution
from engine.maths.proposal import ROOT, MemberPrediction, Proposal
from engine.maths.randomness import TargetStream
from engine.maths.typical import typical_path

Rule = Literal["point-mass", "ratio", "block", "multi-candidate", "typical"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """path: accepted node indices from the first level down. token: what follows them.

    kind of the token: correction after a rejection, bonus after full acceptance (the path ended
    at a leaf), plain when nothing was proposed.
    """

    path: tuple[int, ...]
    token: int
    kind: Literal["correction", "bonus", "plain"]


def choose_rule(proposal: Proposal, coupling: Coupling, acceptance: Acceptance = "exact") -> Rule:
    """The exact rule that accepts most for what the proposal carries, unless told otherwise.

    Coupling "seed" always samples p itself: with a CoupledStream the text then depends on the
    seed alone, whatever the drafter.
    """
    if acceptance == "typical":
        return "typical"
    if coupling == "seed" or not proposal.is_sampled:
        return "point-mass"
    if not proposal.is_chain:
        return "multi-candidate"
    return "ratio" if len(proposal) == 1 else "block"


def verify(
    proposal: Proposal,
    targets: Sequence[Distribution],
    position: int,
    rule: Rule,
    stream: TargetStream,
) -> Verdict:
    """Verify one round.

    targets: p after the last token of the context, then p after each node on that node's own
    prefix, len(proposal) + 1 in all (read only where the rule needs them, so a lazy sequence
    saves work). position: context index that the first new token takes.
    """
    if not len(proposal):
        return Verdict((), stream.draw(targets[0], position), "plain")
    if rule == "point-mass":
        return _verify_point_mass(proposal, targets, position, stream)
    if rule == "typical":
        return _verify_typical(proposal, targets, position, stream)
    if rule == "multi-candidate":
        return _verify_multi_candidate(proposal, targets, position, stream)
    if not proposal.is_chain:
        raise ValueError(f"the {rule} rule verifies chains only")
    if rule == "ratio":
        return _verify_ratio(proposal, targets, position, stream)
    return _verify_block(proposal, targets, position, stream)


def residual(p: Distribution, q: Distribution, scale: float = 1.0) -> Distribution | None:
    """max(scale * p - q, 0), normalised; None when no mass is left."""
    mass, total = _excess(p, q, ROOT, scale)
    return _normalised(p, mass, total)


def expected_acceptance(p: Distribution, q: Distribution) -> float:
    """Probability that the ratio rule keeps one token drawn from q: the sum of min(p, q)."""
    if len(q.ids) < len(p.ids):
        p, q = q, p
    return float(np.minimum(p.probabilities, _probabilities_at(q, p)).sum())


def agreement(prediction: MemberPrediction, p: Distribution) -> float:
    """Probability that the target would have kept the predicted token, alone."""
    if prediction.q is None:
        return p.probability(prediction.token)
    return expected_acceptance(p, prediction.q)


def _verify_point_mass(
    proposal: Proposal, targets: Sequence[Distribution], position: int, stream: TargetStream
) -> Verdict:
    path: list[int] = []
    node = ROOT
    while True:
        token = stream.draw(targets[node + 1], position + len(path))
        children = proposal.children(node)
        if not children:
            return Verdict(tuple(path), token, "bonus")
        matching = next((child for child in children if proposal.tokens[child] == token), None)
        if matching is None:
            return Verdict(tuple(path), token, "correction")
        path.append(matching)
        node = matching


def _verify_typical(
    proposal: Proposal, targets: Sequence[Distribution], position: int, stream: TargetStream
) -> Verdict:
    path = typical_path(proposal, targets)
    node = path[-1] if path else ROOT
    token = stream.draw(targets[node + 1], position + len(path))
    return Verdict(path, token, "correction" if proposal.children(node) else "bonus")


def _verify_ratio(
    proposal: Proposal, targets: Sequence[Distribution], position: int, stream: TargetStream
) -> Verdict:
    count = len(proposal)
    for node, (token, q) in enumerate(zip(proposal.tokens, proposal.distributions, strict=True)):
        p = targets[node]
        if not stream.accept(_capped_ratio(p.probability(token), _drawn_with(q, token))):
            left = _after_rejection(p, q, token)
            return Verdict(tuple(range(node)), stream.draw(left, position + node), "correction")
    return Verdict(tuple(range(count)), stream.draw(targets[count], position + count), "bonus")


def _verify_block(
    proposal: Proposal, targets: Sequence[Distribution], position: int, stream: TargetStream
) -> Verdict:
    """The longest prefix whose own test passes; going from the longest down, the first one."""
    count = len(proposal)
    weights = _block_weights(proposal, targets)
    for length in range(len(weights) - 1, 0, -1):
        if length == count:
            if stream.accept(weights[count]):
                token = stream.draw(targets[count], position + count)
                return Verdict(tuple(range(count)), token, "bonus")
            continue
        weight, p = weights[length], targets[length]
        q, drafted = proposal.distributions[length], proposal.tokens[length]
        mass, total = _excess(p, q, drafted, weight)
        room = total + (1.0 - weight)
        if stream.accept(total / room if room > 0.0 else 1.0):
            left = _normalised(p, mass, total) or p
            token = stream.draw(left, position + length)
            return Verdict(tuple(range(length)), token, "correction")
    left = _after_rejection(targets[0], proposal.distributions[0], proposal.tokens[0])
    return Verdict((), stream.draw(left, position), "correction")


def _block_weights(proposal: Proposal, targets: Sequence[Distribution]) -> list[float]:
    """w_0 = 1, w_i = min(1, w_(i-1) p_i/q_i), up to the first 0: nothing past it can pass."""
    weights = [1.0]
    for node, (token, q) in enumerate(zip(proposal.tokens, proposal.distributions, strict=True)):
        weight = _capped_ratio(
            weights[-1] * targets[node].probability(token), _drawn_with(q, token)
        )
        if weight == 0.0:
            break
        weights.append(weight)
    return weights


def _verify_multi_candidate(
    proposal: Proposal, targets: Sequence[Distribution], position: int, stream: TargetStream
) -> Verdict:
    path: list[int] = []
    node = ROOT
    while children := proposal.children(node):
        accepted, left = _try_siblings(proposal, children, targets[node + 1], stream)
        if accepted is None:
            return Verdict(tuple(path), stream.draw(left, position + len(path)), "correction")
        path.append(accepted)
        node = accepted
    return Verdict(tuple(path), stream.draw(targets[node + 1], position + len(path)), "bonus")


def _try_siblings(
    proposal: Proposal, siblings: Sequence[int], p: Distribution, stream: TargetStream
) -> tuple[int | None, Distribution]:
    """The accepted sibling or None, and what the rejected ones left of p.

    Siblings with the same q object were drawn from it without replacement; another q object is
    another, independent source. A token drawn by two sources must stand twice, or the second
    source's q would go unsubtracted.
    """
    left_of_q: dict[int, Distribution | None] = {}
    for child in siblings:
        token, source = proposal.tokens[child], proposal.distributions[child]
        q = source
        if source is not None:
            q = left_of_q.get(id(source), source)
            if q is None:
                raise ValueError("more siblings than the support of their draft distribution")
        if stream.accept(_capped_ratio(p.probability(token), _drawn_with(q, token))):
            return child, p
        p = _after_rejection(p, q, token)
        if source is not None and q is not None:
            left_of_q[id(source)] = _without(q, token)
    return None, p


def _capped_ratio(numerator: float, denominator: float) -> float:
    return 1.0 if numerator >= denominator else numerator / denominator


def _drawn_with(q: Distribution | None, token: int) -> float:
    """The probability the token was drawn with; 1 for a point mass."""
    if q is None:
        return 1.0
    probability = q.probability(token)
    if probability <= 0.0:
        raise ValueError(f"token {token} cannot have been drawn from the q it was proposed with")
    return probability


def _after_rejection(p: Distribution, q: Distribution | None, token: int) -> Distribution:
    """The residual; p itself where rounding left it no mass (its true probability is then ~0)."""
    if q is None:
        return _without(p, token) or p
    return residual(p, q) or p


def _without(distribution: Distribution, token: int) -> Distribution | None:
    kept = distribution.ids != token
    mass = distribution.probabilities[kept]
    total = float(mass.sum())
    return Distribution(distribution.ids[kept], mass / total) if total > 0.0 else None


def _excess(
    p: Distribution, q: Distribution | None, drafted: int, scale: float
) -> tuple[NDArray[np.float64], float]:
    """max(scale * p - q, 0) on p's support and its sum; q None: all of it on `drafted`."""
    mass = p.probabilities * scale
    if q is None:
        mass[p.ids == drafted] = 0.0  # q is 1 there
    else:
        mass -= _probabilities_at(q, p)
        np.maximum(mass, 0.0, out=mass)
    return mass, float(mass.sum())


def _normalised(p: Distribution, mass: NDArray[np.float64], total: float) -> Distribution | None:
    if total <= 0.0:
        return None
    kept = np.flatnonzero(mass)  # never negative
    return Distribution(p.ids[kept], mass[kept] / total)


def _probabilities_at(q: Distribution, p: Distribution) -> NDArray[np.float64]:
    """q's probabilities on p's support; without truncation both are the whole vocabulary."""
    if p.ids is q.ids or (len(p.ids) == len(q.ids) and np.array_equal(p.ids, q.ids)):
        return q.probabilities
    return q.probability_of(p.ids)
