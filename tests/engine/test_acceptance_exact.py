"""Every rule on toy models, every random decision enumerated: the emitted law is the target's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.maths.acceptance import Rule, Verdict, choose_rule, verify
from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from tests.engine.toys import (
    Drafting,
    Toy,
    TreeDraft,
    constant_toy,
    dense,
    distance_to_target,
    draft_chain,
    emitted,
    expected_accepted,
    node_targets,
    random_toy,
    sequence_probability,
)
from tests.fakes import BranchingStream, outcomes

EXACT = 1e-12
RULES: tuple[Rule, ...] = ("point-mass", "ratio", "block", "multi-candidate")
Growing = Callable[[TreeDraft], object]


def growing(grow: Growing) -> Drafting:
    def draft(stream: BranchingStream) -> Proposal:
        tree = TreeDraft(stream)
        grow(tree)
        return tree.proposal()

    return draft


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("length", "vocabulary"), [(1, 4), (2, 3), (3, 3), (4, 2)])
@pytest.mark.parametrize("holes", [False, True])
def test_a_sampled_chain_keeps_the_target_law(
    rule: Rule, length: int, vocabulary: int, holes: bool
) -> None:
    p, q = random_toy(1, vocabulary, holes), random_toy(2, vocabulary, holes)
    distance = distance_to_target(
        p, lambda s: draft_chain(q, length, s), rule, length + 1, vocabulary
    )
    assert distance < EXACT


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kinds", ["d", "dd", "sd", "ds", "sds", "dsd", "ssd"])
def test_a_chain_of_sampled_and_deterministic_tokens_keeps_the_target_law(
    rule: Rule, kinds: str
) -> None:
    p, q = random_toy(3, 3), random_toy(4, 3)

    def grow(tree: TreeDraft) -> None:
        node = ROOT
        for kind in kinds:
            here = q(tree.prefix(node))
            if kind == "s":
                node = tree.sample(node, here)
            else:
                node = tree.add(node, here.most_likely(), None)

    assert distance_to_target(p, growing(grow), rule, len(kinds) + 1, 3) < EXACT


@pytest.mark.parametrize("rule", ["point-mass", "multi-candidate"])
@pytest.mark.parametrize(("widths", "vocabulary"), [((2,), 3), ((3,), 4), ((2, 2), 3), ((1, 3), 4)])
def test_a_tree_sampled_without_replacement_keeps_the_target_law(
    rule: Rule, widths: tuple[int, ...], vocabulary: int
) -> None:
    p, q = random_toy(5, vocabulary), random_toy(6, vocabulary)

    def grow(tree: TreeDraft) -> None:
        level = [ROOT]
        for width in widths:
            distributions = {node: q(tree.prefix(node)) for node in level}
            level = [
                tree.sample(node, here)
                for node, here in distributions.items()
                for _ in range(width)
            ]

    draft = growing(grow)
    assert distance_to_target(p, draft, rule, len(widths) + 1, vocabulary) < EXACT


@pytest.mark.parametrize("rule", ["point-mass", "multi-candidate"])
@pytest.mark.parametrize("sources", ["AB", "ABA", "AAB", "dA", "Ad", "AdB", "dd", "AdA", "BAdA"])
def test_siblings_of_several_sources_keep_the_target_law(rule: Rule, sources: str) -> None:
    """A, B: two drafters that sample; d: a deterministic token. One more sampled level below."""
    p, first, second = random_toy(7, 3), random_toy(8, 3), random_toy(9, 3)
    favourite = random_toy(10, 3)(()).most_likely()

    def grow(tree: TreeDraft) -> None:
        q = {"A": first(()), "B": second(())}
        deterministic = [favourite, (favourite + 1) % 3]
        for source in sources:
            if source == "d":
                tree.add(ROOT, deterministic.pop(0), None)
            else:
                tree.sample(ROOT, q[source])
        tree.sample(0, first(tree.prefix(0)))

    assert distance_to_target(p, growing(grow), rule, 3, 3) < EXACT


def after(text: tuple[int, ...], model: Toy) -> Toy:
    return lambda prefix: model(text + prefix)


@pytest.mark.parametrize("rule", RULES)
def test_two_rounds_after_each_other_keep_the_target_law(rule: Rule) -> None:
    p, q = random_toy(11, 2), random_toy(12, 2)

    def two_rounds(stream: BranchingStream) -> tuple[int, ...]:
        text: tuple[int, ...] = ()
        for _ in range(2):
            proposal = draft_chain(after(text, q), 2, stream)
            targets = node_targets(after(text, p), proposal)
            verdict = verify(proposal, targets, len(text), rule, stream)
            text += emitted(proposal, verdict)
        return text[:2]

    law: dict[tuple[int, ...], float] = {}
    for weight, tokens in outcomes(two_rounds):
        law[tokens] = law.get(tokens, 0.0) + weight
    for tokens, mass in law.items():
        assert mass == pytest.approx(sequence_probability(p, tokens), abs=EXACT)


def stopping_chain(q: Toy, stop: str) -> Drafting:
    """Up to 3 tokens; stop: "before" the draw, or after it to "keep" or "drop" a weak token."""

    def draft(stream: BranchingStream) -> Proposal:
        tree, node = TreeDraft(stream), ROOT
        for _ in range(3):
            here = q(tree.prefix(node))
            if stop == "before" and here.probabilities.max() < 0.5:
                break
            node = tree.sample(node, here)
            if stop != "before" and here.probability(tree.tokens[node]) < 1 / 3:
                drop = stop == "drop"
                proposal = tree.proposal()
                return proposal.pruned(len(proposal) - 1) if drop else proposal
        return tree.proposal()

    return draft


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("stop", ["before", "keep"])
def test_stopping_early_is_exact_when_no_drawn_token_is_dropped(rule: Rule, stop: str) -> None:
    p, q = random_toy(13, 3), random_toy(14, 3)
    assert distance_to_target(p, stopping_chain(q, stop), rule, 4, 3) < EXACT


@pytest.mark.parametrize("rule", RULES)
def test_dropping_what_was_drawn_after_an_end_of_text_is_exact(rule: Rule) -> None:
    p, q = random_toy(13, 3), random_toy(14, 3)

    def draft(stream: BranchingStream) -> Proposal:
        return draft_chain(q, 3, stream).ended_at(lambda token: token == 1)

    assert distance_to_target(p, draft, rule, 4, 3) < EXACT


@pytest.mark.parametrize("rule", ["ratio", "block"])
def test_dropping_a_weak_drawn_token_is_biased(rule: Rule) -> None:
    p, q = random_toy(13, 3), random_toy(14, 3)
    assert distance_to_target(p, stopping_chain(q, "drop"), rule, 4, 3) > 0.01


@pytest.mark.parametrize("rule", ["ratio", "block", "multi-candidate"])
def test_a_q_other_than_the_one_drawn_from_breaks_the_law(rule: Rule) -> None:
    """Drafts drawn from a truncated q, the raw q handed to verification."""
    p, raw = random_toy(15, 3), random_toy(16, 3)

    def draft(stream: BranchingStream) -> Proposal:
        tokens: list[int] = []
        for depth in range(2):
            masses = [raw(tuple(tokens)).probability(token) for token in range(3)]
            masses[masses.index(min(masses))] = 0.0
            tokens.append(stream.draw(dense(*masses), depth))
        return Proposal.chain(tokens, "toy", [raw(()), raw(tuple(tokens[:1]))])

    assert distance_to_target(p, draft, rule, 3, 3) > 0.01


@pytest.mark.parametrize("rule", ["ratio", "block", "multi-candidate"])
def test_a_deterministic_token_with_a_q_breaks_the_law_but_a_drawn_one_without_does_not(
    rule: Rule,
) -> None:
    p, q = constant_toy(0.5, 0.3, 0.2), constant_toy(0.2, 0.3, 0.5)

    def without_its_q(stream: BranchingStream) -> Proposal:
        return Proposal.chain(draft_chain(q, 1, stream).tokens, "toy")

    def with_a_false_q(stream: BranchingStream) -> Proposal:
        return Proposal.chain([q(()).most_likely()], "toy", [q(())])

    assert distance_to_target(p, without_its_q, rule, 2, 3) < EXACT
    assert distance_to_target(p, with_a_false_q, rule, 2, 3) > 0.01


def test_merging_equal_tokens_of_two_sources_breaks_the_law() -> None:
    """Why an ensemble's tree keeps both nodes when two drafters draw the same token."""
    p = constant_toy(0.5, 0.1, 0.4)
    first, second = dense(0.2, 0.6, 0.2), dense(0.1, 0.6, 0.3)

    def distance(merge: bool) -> float:
        def draft(stream: BranchingStream) -> Proposal:
            tree = TreeDraft(stream)
            tree.sample(ROOT, first)
            tree.sample(ROOT, second)
            proposal = tree.proposal()
            if merge and proposal.tokens[0] == proposal.tokens[1]:
                return Proposal.chain(proposal.tokens[:1], "toy", [first])
            return proposal

        return distance_to_target(p, draft, "multi-candidate", 1, 3)

    assert distance(merge=False) < EXACT
    assert distance(merge=True) > 0.01


@pytest.mark.parametrize(
    ("length", "block", "token"),
    [(1, 2 / 3, 2 / 3), (2, 11 / 9, 10 / 9), (3, 5 / 3, 38 / 27), (4, 166 / 81, 130 / 81)],
)
def test_accepted_tokens_of_the_block_paper_example(
    length: int, block: float, token: float
) -> None:
    p, q = constant_toy(1 / 3, 2 / 3), constant_toy(2 / 3, 1 / 3)

    def draft(stream: BranchingStream) -> Proposal:
        return draft_chain(q, length, stream)

    assert expected_accepted(p, draft, "block") == pytest.approx(block, abs=EXACT)
    assert expected_accepted(p, draft, "ratio") == pytest.approx(token, abs=EXACT)


def test_acceptance_of_the_multi_candidate_examples() -> None:
    p = constant_toy(0.5, 0.3, 0.1, 0.1)
    first, second = dense(0.2, 0.6, 0.1, 0.1), dense(0.7, 0.1, 0.1, 0.1)
    first_again = dense(0.2, 0.6, 0.1, 0.1)

    def accepted(*sources: Distribution) -> float:
        draft = growing(lambda tree: [tree.sample(ROOT, q) for q in sources])
        return expected_accepted(p, draft, "multi-candidate")

    assert accepted(first) == pytest.approx(0.70, abs=EXACT)
    assert accepted(first, first_again) == pytest.approx(0.76, abs=EXACT)  # with replacement
    assert accepted(first, first) == pytest.approx(0.85, abs=EXACT)  # without
    assert accepted(first, second) == pytest.approx(0.91, abs=EXACT)
    mixture = dense(0.45, 0.35, 0.1, 0.1)
    assert accepted(mixture) == pytest.approx(0.95, abs=EXACT)
    top_two = growing(lambda tree: [tree.add(ROOT, token, None) for token in (1, 0)])
    for rule in ("point-mass", "multi-candidate"):
        assert expected_accepted(p, top_two, rule) == pytest.approx(0.80, abs=EXACT)


@pytest.mark.parametrize("length", [2, 3])
def test_block_equals_ratio_on_deterministic_chains(length: int) -> None:
    p, q = random_toy(17, 3), random_toy(18, 3)

    def grow(tree: TreeDraft) -> None:
        node = ROOT
        for _ in range(length):
            node = tree.add(node, q(tree.prefix(node)).most_likely(), None)

    accepted = [expected_accepted(p, growing(grow), rule) for rule in RULES]
    assert accepted == pytest.approx([accepted[0]] * len(RULES), abs=EXACT)


@pytest.mark.parametrize("rule", RULES)
def test_identical_models_accept_everything(rule: Rule) -> None:
    p = random_toy(19, 3)
    expected = expected_accepted(p, lambda s: draft_chain(p, 3, s), rule)
    if rule == "point-mass":
        assert expected < 2.9  # what matching samples gives away
    else:
        assert expected == pytest.approx(3.0, abs=EXACT)


@pytest.mark.parametrize("rule", RULES)
def test_disjoint_supports_accept_nothing(rule: Rule) -> None:
    p, q = constant_toy(0.5, 0.5, 0.0, 0.0), constant_toy(0.0, 0.0, 0.5, 0.5)

    def draft(stream: BranchingStream) -> Proposal:
        return draft_chain(q, 2, stream)

    assert expected_accepted(p, draft, rule) == 0.0
    assert distance_to_target(p, draft, rule, 3, 4) < EXACT


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_proposal_is_plain_sampling(rule: Rule) -> None:
    p = random_toy(20, 4)
    assert distance_to_target(p, lambda _: EMPTY_PROPOSAL, rule, 2, 4) < EXACT
    verdict = verify(EMPTY_PROPOSAL, [Distribution.point_mass(3)], 0, rule, BranchingStream(()))
    assert verdict == Verdict((), 3, "plain")


def test_the_rule_follows_what_the_proposal_carries() -> None:
    q = dense(0.5, 0.5)
    sampled_tree = Proposal((0, 1), (ROOT, ROOT), ("toy",) * 2, (q, q))
    assert choose_rule(EMPTY_PROPOSAL, "best") == "point-mass"
    assert choose_rule(Proposal.chain([0, 1], "toy"), "best") == "point-mass"
    assert choose_rule(Proposal.chain([0], "toy", [q]), "best") == "ratio"
    assert choose_rule(Proposal.chain([0, 1], "toy", [q, q]), "best") == "block"
    assert choose_rule(Proposal.chain([0, 1], "toy", [None, q]), "best") == "block"
    assert choose_rule(sampled_tree, "best") == "multi-candidate"
    assert choose_rule(sampled_tree, "seed") == "point-mass"
