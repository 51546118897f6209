"""Proposals and sparse distributions: the shapes everything else relies on."""

from __future__ import annotations

import numpy as np
import pytest

from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from tests.engine.toys import dense

TREE = Proposal(
    tokens=(10, 11, 12, 13, 14),
    parents=(ROOT, ROOT, 0, 0, 2),
    drafters=("a", "b", "a", "a", "b"),
    distributions=(None, dense(1.0), None, None, None),
)


def test_a_chain_is_a_tree_with_one_branch() -> None:
    chain = Proposal.chain([5, 6, 7], "ngram")
    assert chain.parents == (ROOT, 0, 1)
    assert chain.drafters == ("ngram",) * 3
    assert chain.distributions == (None,) * 3
    assert chain.is_chain and not chain.is_sampled
    assert chain.depths == (1, 2, 3)
    assert chain.leaves() == (2,)
    assert chain.path(2) == (0, 1, 2)


def test_a_tree_knows_its_branches() -> None:
    assert not TREE.is_chain and TREE.is_sampled
    assert TREE.depths == (1, 1, 2, 2, 3)
    assert TREE.children(ROOT) == (0, 1)
    assert TREE.children(0) == (2, 3)
    assert TREE.children(4) == ()
    assert TREE.leaves() == (1, 3, 4)
    assert TREE.path(4) == (0, 2, 4)
    assert TREE.path(ROOT) == ()


def test_pruning_keeps_the_upper_levels_and_renumbers_parents() -> None:
    lower_first = Proposal((1, 2, 3, 4), (ROOT, 0, ROOT, 2), ("a",) * 4, (None,) * 4)
    pruned = lower_first.pruned(1)
    assert (pruned.tokens, pruned.parents) == ((1, 3), (ROOT, ROOT))
    two = TREE.pruned(2)
    assert two.tokens == (10, 11, 12, 13)
    assert two.parents == (ROOT, ROOT, 0, 0)
    assert two.drafters == ("a", "b", "a", "a")
    assert two.distributions == TREE.distributions[:4]
    assert TREE.pruned(3) is TREE
    assert len(TREE.pruned(0)) == 0


def test_nothing_below_an_end_of_text_stays() -> None:
    chain = Proposal.chain([5, 6, 7], "ngram")
    assert chain.ended_at(lambda token: token == 6).tokens == (5, 6)
    assert chain.ended_at(lambda token: token == 7) is chain
    ended = TREE.ended_at(lambda token: token == 12)
    assert (ended.tokens, ended.parents) == ((10, 11, 12, 13), (ROOT, ROOT, 0, 0))
    assert TREE.ended_at(lambda token: token == 10).tokens == (10, 11)
    assert len(EMPTY_PROPOSAL.ended_at(lambda token: True)) == 0


def test_an_empty_proposal_is_a_chain_of_nothing() -> None:
    assert len(EMPTY_PROPOSAL) == 0
    assert EMPTY_PROPOSAL.is_chain and not EMPTY_PROPOSAL.is_sampled
    assert EMPTY_PROPOSAL.depths == EMPTY_PROPOSAL.leaves() == ()
    assert EMPTY_PROPOSAL.children(ROOT) == ()


@pytest.mark.parametrize("parents", [(0,), (1, ROOT), (-2,), (ROOT, 1)])
def test_a_child_before_its_parent_is_refused(parents: tuple[int, ...]) -> None:
    count = len(parents)
    with pytest.raises(ValueError, match="parents must come before"):
        Proposal((1,) * count, parents, ("a",) * count, (None,) * count)


def test_entries_missing_for_a_token_are_refused() -> None:
    with pytest.raises(ValueError, match="one parent, drafter and distribution per token"):
        Proposal((1, 2), (ROOT, 0), ("a",), (None, None))


def test_probabilities_inside_and_outside_the_support() -> None:
    sparse = Distribution(np.array([3, 8]), np.array([0.25, 0.75]))
    assert [sparse.probability(token) for token in (2, 3, 5, 8, 9)] == [0, 0.25, 0, 0.75, 0]
    many = sparse.probability_of(np.array([9, 8, 3, 0]))
    assert many.tolist() == [0.0, 0.75, 0.25, 0.0]
    assert sparse.most_likely() == 8


def test_a_draw_inverts_the_cumulative_distribution() -> None:
    sparse = Distribution(np.array([3, 8, 9]), np.array([0.25, 0.5, 0.25]))
    uniforms = (0.0, 0.2499, 0.25, 0.7499, 0.75, np.nextafter(1.0, 0.0))
    assert [sparse.draw(uniform) for uniform in uniforms] == [3, 3, 8, 8, 9, 9]
    assert Distribution.point_mass(4).draw(0.99) == 4
