"""Invariants of the verification rules for arbitrary distributions, and their wrong inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.maths.acceptance import Rule, Verdict, expected_acceptance, residual, verify
from engine.maths.distribution import Distribution
from engine.maths.proposal import ROOT, Proposal
from engine.maths.randomness import CoupledStream, IndependentStream
from tests.engine.toys import dense, emitted, random_toy
from tests.fakes import BranchingStream, outcomes

RULES: tuple[Rule, ...] = ("point-mass", "ratio", "block", "multi-candidate")


@st.composite
def distributions(draw: st.DrawFn) -> Distribution:
    """Sparse, with masses over many orders of magnitude."""
    ids = draw(st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True))
    exponents = draw(st.lists(st.floats(-200.0, 0.0), min_size=len(ids), max_size=len(ids)))
    masses = np.exp(np.array(exponents) - max(exponents))
    order = np.argsort(ids)
    return Distribution(np.array(ids, np.int64)[order], (masses / masses.sum())[order])


@given(distributions(), distributions(), st.floats(0.0, 1.0))
def test_the_residual_is_a_distribution_inside_p(
    p: Distribution, q: Distribution, scale: float
) -> None:
    left = residual(p, q, scale)
    excess = {
        token: scale * mass - q.probability(token)
        for token, mass in zip(p.ids.tolist(), p.probabilities.tolist(), strict=True)
    }
    positive = {token: mass for token, mass in excess.items() if mass > 0.0}
    if left is None:
        assert not positive
        return
    assert left.ids.tolist() == sorted(positive)
    assert np.all(left.probabilities > 0.0)
    assert left.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    total = sum(positive.values())
    for token, mass in positive.items():
        assert left.probability(token) == pytest.approx(mass / total, rel=1e-9)


@given(distributions(), distributions())
def test_expected_acceptance_is_one_less_the_total_variation(
    p: Distribution, q: Distribution
) -> None:
    everything = np.arange(31)
    variation = np.abs(p.probability_of(everything) - q.probability_of(everything)).sum() / 2
    assert expected_acceptance(p, q) == pytest.approx(1.0 - variation, abs=1e-12)
    assert expected_acceptance(p, q) == pytest.approx(expected_acceptance(q, p), abs=1e-12)


@given(distributions(), distributions())
def test_expected_acceptance_is_what_the_ratio_rule_accepts(
    p: Distribution, q: Distribution
) -> None:
    def one_round(stream: BranchingStream) -> Verdict:
        proposal = Proposal.chain([stream.draw(q, 0)], "toy", [q])
        return verify(proposal, [p, p], 0, "ratio", stream)

    accepted = sum(weight for weight, verdict in outcomes(one_round) if verdict.path)
    assert accepted == pytest.approx(expected_acceptance(p, q), abs=1e-9)


@given(st.data(), st.sampled_from(RULES), st.integers(0, 2**31))
def test_a_verdict_is_a_path_from_the_root_and_a_possible_token(
    data: st.DataObject, rule: Rule, seed: int
) -> None:
    length = data.draw(st.integers(1, 4))
    sources = [data.draw(distributions()) for _ in range(length)]
    targets = [data.draw(distributions()) for _ in range(length + 1)]
    stream = IndependentStream(seed, "target")
    proposal = Proposal.chain([stream.draw(q, 0) for q in sources], "toy", sources)
    verdict = verify(proposal, targets, 0, rule, stream)
    accepted = len(verdict.path)
    assert verdict.path == tuple(range(accepted))
    assert verdict.kind == ("bonus" if accepted == length else "correction")
    for index, token in enumerate(emitted(proposal, verdict)):
        assert targets[index].probability(token) > 0.0


@pytest.mark.parametrize("rule", RULES)
def test_a_greedy_target_walks_its_own_path_under_every_rule(rule: Rule) -> None:
    wanted = [4, 2, 7]
    targets = [Distribution.point_mass(token) for token in wanted]
    stream = IndependentStream(1, "target")
    right = Proposal.chain(wanted[:2], "toy")
    assert verify(right, targets, 0, rule, stream) == Verdict((0, 1), 7, "bonus")
    half = Proposal.chain([4, 3], "toy")
    assert verify(half, targets, 0, rule, stream) == Verdict((0,), 2, "correction")
    wrong = Proposal.chain([5, 2], "toy")
    assert verify(wrong, targets, 0, rule, stream) == Verdict((), 4, "correction")


@pytest.mark.parametrize("rule", ["point-mass", "multi-candidate"])
def test_a_greedy_target_finds_its_branch_of_a_tree(rule: Rule) -> None:
    tree = Proposal((5, 4, 1, 2, 3), (ROOT, ROOT, 0, 1, 1), ("toy",) * 5, (None,) * 5)
    after = {ROOT: 4, 1: 3, 4: 9}
    targets = [Distribution.point_mass(after.get(node, 0)) for node in range(ROOT, 5)]
    verdict = verify(tree, targets, 0, rule, IndependentStream(1, "target"))
    assert verdict == Verdict((1, 4), 9, "bonus")


class PositionStream:
    """Accepts as scripted, draws the lowest id, and keeps the positions it was asked for."""

    def __init__(self, accepts: list[bool]) -> None:
        self._accepts = accepts
        self.positions: list[int] = []

    def uniform(self) -> float:
        return 0.0

    def accept(self, probability: float) -> bool:
        return self._accepts.pop(0)

    def draw(self, distribution: Distribution, position: int) -> int:
        self.positions.append(position)
        return int(distribution.ids[0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("accepted", [0, 1, 2, 3])
def test_tokens_are_drawn_for_the_position_they_take(rule: Rule, accepted: int) -> None:
    drafted = [0] * accepted + [1] * (3 - accepted)
    proposal = Proposal.chain(drafted, "toy", [dense(0.4, 0.6)] * 3)
    if rule == "block":  # tests the longest prefix first
        stream = PositionStream([False] * (3 - accepted) + [True] * (accepted > 0))
    else:
        stream = PositionStream([True] * accepted + [False])
    verdict = verify(proposal, [dense(0.5, 0.5)] * 4, 100, rule, stream)
    assert len(verdict.path) == accepted
    walked = range(accepted + 1) if rule == "point-mass" else [accepted]
    assert stream.positions == [100 + depth for depth in walked]


class CountingTargets(list[Distribution]):
    """Remembers which rows were read."""

    def __init__(self, rows: list[Distribution]) -> None:
        super().__init__(rows)
        self.read: set[int] = set()

    def __getitem__(self, index: int) -> Distribution:  # type: ignore[override]  # takes no slices
        self.read.add(index)
        return super().__getitem__(index)


@pytest.mark.parametrize("rule", RULES)
def test_rows_after_a_certain_rejection_are_not_read(rule: Rule) -> None:
    targets = CountingTargets([dense(1.0), dense(1.0), dense(1.0), dense(1.0)])
    proposal = Proposal.chain([0, 1, 0], "toy", [dense(1.0), dense(0.0, 1.0), dense(1.0)])
    verify(proposal, targets, 0, rule, IndependentStream(1, "target"))
    assert targets.read == {0, 1}


@pytest.mark.parametrize("rule", ["ratio", "block", "multi-candidate"])
def test_a_token_outside_its_q_is_refused(rule: Rule) -> None:
    proposal = Proposal.chain([2], "toy", [dense(0.5, 0.5)])
    with pytest.raises(ValueError, match="cannot have been drawn"):
        verify(proposal, [dense(0.2, 0.2, 0.6)] * 2, 0, rule, IndependentStream(1, "target"))


def test_a_sibling_drawn_twice_from_one_q_is_refused() -> None:
    q = dense(0.1, 0.9)
    twice = Proposal((1, 1), (ROOT, ROOT), ("toy",) * 2, (q, q))
    with pytest.raises(ValueError, match="cannot have been drawn"):
        verify(twice, [dense(1.0)] * 3, 0, "multi-candidate", IndependentStream(1, "target"))
    lone = dense(0.0, 1.0)
    exhausted = Proposal((1, 1), (ROOT, ROOT), ("toy",) * 2, (lone, lone))
    with pytest.raises(ValueError, match="more siblings"):
        verify(exhausted, [dense(1.0)] * 3, 0, "multi-candidate", IndependentStream(1, "target"))


@pytest.mark.parametrize("rule", ["ratio", "block"])
def test_chain_rules_refuse_trees(rule: Rule) -> None:
    tree = Proposal((0, 1), (ROOT, ROOT), ("toy",) * 2, (None, None))
    with pytest.raises(ValueError, match="chains only"):
        verify(tree, [dense(0.5, 0.5)] * 3, 0, rule, IndependentStream(1, "target"))


class RejectingStream(IndependentStream):
    def accept(self, probability: float) -> bool:
        return False


@pytest.mark.parametrize("rule", ["ratio", "block", "multi-candidate"])
def test_a_residual_without_mass_falls_back_to_p(rule: Rule) -> None:
    """With p == q a rejection has no chance; rounding can still bring one about."""
    p = dense(0.3, 0.7)
    proposal = Proposal.chain([1, 1], "toy", [p, p])
    verdict = verify(proposal, [p] * 3, 0, rule, RejectingStream(1, "target"))
    assert verdict.path == () and verdict.token in (0, 1) and verdict.kind == "correction"
    certain = Distribution.point_mass(5)
    verdict = verify(
        Proposal.chain([5], "toy"), [certain] * 2, 0, rule, RejectingStream(1, "target")
    )
    assert verdict == Verdict((), 5, "correction")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("drafter", ["none", "twin", "other", "always wrong", "point masses"])
def test_coupled_text_is_the_same_whatever_the_drafter(seed: int, drafter: str) -> None:
    p, other = random_toy(31, 6), random_toy(32, 6)
    q = p if drafter == "twin" else other

    def propose(context: tuple[int, ...], stream: CoupledStream) -> Proposal:
        tokens: list[int] = []
        for depth in range(3 if drafter != "none" else 0):
            here = q((*context, *tokens)[-2:])
            drawn = stream.draw(here, len(context) + depth)
            tokens.append(
                {"always wrong": 6, "point masses": here.most_likely()}.get(drafter, drawn)
            )
        return Proposal.chain(tokens, "toy")

    def text() -> tuple[tuple[int, ...], int]:
        context: tuple[int, ...] = ()
        accepted = 0
        stream = CoupledStream(seed)
        while len(context) < 40:
            proposal = propose(context, CoupledStream(seed))
            targets = [
                p((*context, *proposal.tokens[:count])[-2:]) for count in range(len(proposal) + 1)
            ]
            verdict = verify(proposal, targets, len(context), "point-mass", stream)
            context += emitted(proposal, verdict)
            accepted += len(verdict.path)
        return context[:40], accepted

    plain: list[int] = []
    for position in range(40):
        plain.append(CoupledStream(seed).draw(p(tuple(plain[-2:])), position))
    tokens, accepted = text()
    assert tokens == tuple(plain)
    if drafter in ("none", "always wrong"):
        assert accepted == 0
    if drafter == "twin":
        assert accepted >= 29  # every draft but those cut off by the end
