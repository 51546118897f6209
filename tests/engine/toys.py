"""Toy models with a few tokens, and the exact law of what a round over them emits."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from engine.maths.acceptance import Rule, Verdict, verify
from engine.maths.distribution import Distribution
from engine.maths.proposal import ROOT, Proposal
from tests.fakes import BranchingStream, outcomes

Prefix = tuple[int, ...]
Toy = Callable[[Prefix], Distribution]
Drafting = Callable[[BranchingStream], Proposal]


def dense(*masses: float) -> Distribution:
    """The distribution with these masses for tokens 0, 1, ...; zeros are left out."""
    values = np.array(masses, np.float64)
    ids = np.flatnonzero(values > 0.0)
    return Distribution(ids, values[ids] / values.sum())


def random_toy(seed: int, vocabulary: int, holes: bool = False) -> Toy:
    """A model whose distribution depends on the whole prefix; holes: some tokens impossible."""

    @functools.cache
    def distribution(prefix: Prefix) -> Distribution:
        generator = np.random.default_rng([seed, vocabulary, len(prefix), *prefix])
        masses = generator.integers(1, 10, vocabulary).astype(np.float64)
        if holes:
            masses[generator.integers(vocabulary)] = 0.0
        return dense(*masses)

    return distribution


def constant_toy(*masses: float) -> Toy:
    fixed = dense(*masses)
    return lambda prefix: fixed


def draft_chain(q: Toy, length: int, stream: BranchingStream) -> Proposal:
    tokens: list[int] = []
    distributions: list[Distribution] = []
    for depth in range(length):
        distributions.append(q(tuple(tokens)))
        tokens.append(stream.draw(distributions[-1], depth))
    return Proposal.chain(tokens, "toy", distributions)


class TreeDraft:
    """Grows a tree node by node; `sample` draws without replacement among its own siblings."""

    def __init__(self, stream: BranchingStream) -> None:
        self._stream = stream
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.distributions: list[Distribution | None] = []

    def prefix(self, node: int) -> Prefix:
        if node == ROOT:
            return ()
        return (*self.prefix(self.parents[node]), self.tokens[node])

    def add(self, parent: int, token: int, q: Distribution | None) -> int:
        self.tokens.append(token)
        self.parents.append(parent)
        self.distributions.append(q)
        return len(self.tokens) - 1

    def sample(self, parent: int, q: Distribution) -> int:
        taken = {
            self.tokens[node]
            for node, other in enumerate(self.parents)
            if other == parent and self.distributions[node] is q
        }
        kept = np.array([token not in taken for token in q.ids.tolist()])
        left = Distribution(q.ids[kept], q.probabilities[kept] / q.probabilities[kept].sum())
        return self.add(parent, self._stream.draw(left, len(self.prefix(parent))), q)

    def proposal(self) -> Proposal:
        count = len(self.tokens)
        return Proposal(
            tuple(self.tokens), tuple(self.parents), ("toy",) * count, tuple(self.distributions)
        )


def node_targets(p: Toy, proposal: Proposal) -> list[Distribution]:
    """p at the root and after every node, as the round loop hands it over."""
    prefixes = [
        tuple(proposal.tokens[node] for node in proposal.path(index))
        for index in range(len(proposal))
    ]
    return [p(()), *(p(prefix) for prefix in prefixes)]


def run_round(p: Toy, draft: Drafting, rule: Rule, stream: BranchingStream) -> tuple[Prefix, int]:
    """Emitted tokens of one round and how many of them were accepted."""
    proposal = draft(stream)
    verdict = verify(proposal, node_targets(p, proposal), 0, rule, stream)
    return emitted(proposal, verdict), len(verdict.path)


def emitted(proposal: Proposal, verdict: Verdict) -> Prefix:
    return (*(proposal.tokens[node] for node in verdict.path), verdict.token)


def sequence_probability(p: Toy, sequence: Sequence[int], start: int = 0) -> float:
    """Probability of sequence[start:] after sequence[:start] under plain sampling."""
    result = 1.0
    for index in range(start, len(sequence)):
        result *= p(tuple(sequence[:index])).probability(sequence[index])
    return result


def emitted_law(
    p: Toy, draft: Drafting, rule: Rule, length: int, vocabulary: int
) -> dict[Prefix, float]:
    """Exact law of the first `length` tokens: one round, continued by plain sampling."""
    law = dict.fromkeys(itertools.product(range(vocabulary), repeat=length), 0.0)
    for weight, (tokens, _) in outcomes(lambda stream: run_round(p, draft, rule, stream)):
        known = tokens[:length]
        for rest in itertools.product(range(vocabulary), repeat=length - len(known)):
            sequence = known + rest
            law[sequence] += weight * sequence_probability(p, sequence, len(known))
    return law


def distance_to_target(p: Toy, draft: Drafting, rule: Rule, length: int, vocabulary: int) -> float:
    """Total variation between the emitted law and the target's own."""
    law = emitted_law(p, draft, rule, length, vocabulary)
    assert abs(sum(law.values()) - 1.0) < 1e-12
    return sum(abs(mass - sequence_probability(p, key)) for key, mass in law.items()) / 2.0


def expected_accepted(p: Toy, draft: Drafting, rule: Rule) -> float:
    return sum(
        weight * accepted
        for weight, (_, accepted) in outcomes(lambda s: run_round(p, draft, rule, s))
    )
