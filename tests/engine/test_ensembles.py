"""Ensembles: what they propose, what they learn, and what is shown of their members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.control.controller import AlwaysDraft
from engine.data.errors import BadOptionError
from engine.data.request import DraftParams, GenerateRequest, SamplingParams
from engine.data.rounds import RoundTrace
from engine.data.stats import StatsCounter
from engine.decode.loop import DraftSetup, RoundLoop, Streams
from engine.drafters.base import Drafter, Observation, StepDrafter
from engine.drafters.build_context import BuildContext
from engine.drafters.ensembles.best import BestDrafter
from engine.drafters.ensembles.mixture import MixtureDrafter, pooled
from engine.drafters.ensembles.tree import TreeDrafter
from engine.drafters.ensembles.union import UnionDrafter, merge
from engine.drafters.ensembles.vote import VoteDrafter
from engine.drafters.ensembles.weights import MemberWeights
from engine.drafters.kinds.ngram import NgramDrafter
from engine.drafters.parse import parse_expression
from engine.llama.abort import AbortFlag
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.acceptance import expected_acceptance
from engine.maths.distribution import Distribution
from engine.maths.proposal import ROOT, Proposal
from engine.maths.randomness import IndependentStream
from tests.engine import scripted
from tests.engine.open_drafter import build_drafter
from tests.engine.scripted import ScriptedDrafter, ToyTarget, ToyVocabulary, greedy_text
from tests.engine.steppers import Setting, ToyStepper
from tests.engine.toys import Prefix, Toy, constant_toy, dense, random_toy
from tests.tiny_gguf import write_tiny_gguf

PROMPT = [3, 1, 4, 1, 5]


def softmax(row: Sequence[float]) -> Distribution:
    masses = np.exp(np.array(row, np.float64) - max(row))
    return Distribution(np.arange(len(masses)), masses / masses.sum())


def target_toy(prefix: Prefix) -> Distribution:
    return softmax(scripted.toy_logits(prefix).tolist())


def noisy_toy(seed: int, noise: float) -> Toy:
    """The toy target with noise on its logits: a member that is right now and then."""

    def distribution(prefix: Prefix) -> Distribution:
        generator = np.random.default_rng([seed, len(prefix), *prefix[-4:]])
        return softmax((scripted.toy_logits(prefix) + noise * generator.normal(size=12)).tolist())

    return distribution


def member(name: str, seed: int, noise: float) -> ToyStepper:
    return ToyStepper(name, noisy_toy(seed, noise))


def run(drafter: Drafter, tokens: int, depth: int = 4) -> list[RoundTrace]:
    loop = RoundLoop(
        ToyTarget(tokens=PROMPT[:-1], length_limit=5000),
        DraftSetup(drafter, AlwaysDraft(depth), 65),
        GenerateRequest(
            raw_prompt="x",
            max_tokens=tokens,
            sampling=SamplingParams(),
            drafting=DraftParams("always", depth),
        ),
        Streams(IndependentStream(1, "target"), IndependentStream(1, "draft")),
    )
    drafter.begin(PROMPT)
    events = list(loop.run(list(PROMPT), ToyVocabulary(), lambda: False))
    return [event for event in events if isinstance(event, RoundTrace)]


def text_of(rounds: Sequence[RoundTrace]) -> list[int]:
    return [emitted.token for trace in rounds for emitted in trace.emitted]


def rates(rounds: Sequence[RoundTrace]) -> dict[str, float]:
    """Of the ensemble ("") and of its members, per place."""
    counter = StatsCounter()
    for trace in rounds:
        counter.add(trace)
    stats = counter.snapshot()
    members = {name: count.agreed / count.asked for name, count in stats.members.items()}
    return {"": stats.accepted / stats.reached, **members}


KINDS = {
    "vote": VoteDrafter,
    "mixture": MixtureDrafter,
    "union": UnionDrafter,
    "best": BestDrafter,
}


def three() -> list[StepDrafter]:
    return [member("good", 1, 1.0), member("fair", 2, 2.0), member("bad", 3, 30.0)]


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_is_the_plain_text(kind: str) -> None:
    assert text_of(run(KINDS[kind](three()), 60)) == greedy_text(scripted.toy_logits, PROMPT, 60)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_is_the_sum_of_its_members(kind: str) -> None:
    members = [ToyStepper("a", random_toy(1, 3)), ToyStepper("b", random_toy(2, 3))]
    drafter = KINDS[kind](members)
    assert drafter.name == f"{kind}(a,b)"
    assert drafter.memory_bytes == 14 and drafter.needs == "nothing"
    assert drafter.max_leaves == (2 if kind == "union" else 1)
    drafter.close()
    assert [one.closed for one in members] == [1, 1]


# vote


def test_the_vote_goes_to_the_most_votes_and_says_who_voted() -> None:
    members = [ToyStepper(name, constant_toy(*masses)) for name, masses in [
        ("a", (0.8, 0.1, 0.1)), ("b", (0.1, 0.8, 0.1)), ("c", (0.1, 0.8, 0.1))]]  # fmt: skip
    drafter = VoteDrafter(members)
    proposal = drafter.propose(Setting(2).round([0], IndependentStream(1, "draft")))
    assert proposal.tokens == (1, 1) and not proposal.is_sampled
    assert proposal.drafters == ("vote(a,b,c)",) * 2
    assert [(b.drafter, b.parent, b.token) for b in proposal.predictions] == [
        ("a", ROOT, 0), ("b", ROOT, 1), ("c", ROOT, 1), ("a", 0, 0), ("b", 0, 1), ("c", 0, 1),
    ]  # fmt: skip


def test_members_follow_the_token_that_won() -> None:
    """On the voted prefix, not on their own."""
    seen: list[Prefix] = []

    def minority(prefix: Prefix) -> Distribution:
        seen.append(prefix)
        return Distribution.point_mass(2)

    majority = [ToyStepper(name, lambda prefix: Distribution.point_mass(1)) for name in "ab"]
    drafter = VoteDrafter([ToyStepper("m", minority), *majority])
    drafter.propose(Setting(3).round([9], IndependentStream(1, "draft")))
    assert set(seen) == {(9,), (9, 1), (9, 1, 1)}


def test_weak_voters_cannot_hurt_once_they_are_known() -> None:
    voters: list[StepDrafter] = [member("good", 1, 1.0)]
    voters += [member(f"bad{i}", 9, 30.0) for i in range(3)]  # always of one mind
    rounds = run(VoteDrafter(voters), 900)
    late = rates(rounds[len(rounds) // 2 :])
    assert late["bad0"] < 0.4 < late["good"]
    assert late[""] >= late["good"] - 0.02


def test_a_vote_of_equals_beats_each_of_them() -> None:
    rounds = run(VoteDrafter([member(name, i, 1.5) for i, name in enumerate("abcde")]), 900)
    shown = rates(rounds)
    assert shown[""] > max(shown[name] for name in "abcde") + 0.02


# mixture


def test_pooling_adds_up_sparse_distributions() -> None:
    pool = pooled([dense(0.5, 0.5), dense(0.0, 0.0, 1.0)], [0.25, 0.75])
    assert pool.ids.tolist() == [0, 1, 2]
    assert pool.probabilities == pytest.approx([0.125, 0.125, 0.75])


def test_a_mixture_can_keep_more_than_its_best_member() -> None:
    """And finds weights for it: the example of the multi-candidate tests, .70 and .80 alone."""
    p = constant_toy(0.5, 0.3, 0.1, 0.1)
    q = {"a": constant_toy(0.2, 0.6, 0.1, 0.1), "b": constant_toy(0.7, 0.1, 0.1, 0.1)}
    drafter = MixtureDrafter([ToyStepper(name, model) for name, model in q.items()])
    for _ in range(60):
        proposal = drafter.propose(Setting(1).round([0], IndependentStream(1, "draft")))
        drafter.observe(Observation(proposal, (), (0,), targets=(p(()),)))
    pool = proposal.distributions[0]
    assert pool is not None and expected_acceptance(p(()), pool) > 0.95


def test_a_mixture_at_temperature_0_is_a_vote() -> None:
    members = [ToyStepper("a", constant_toy(0.1, 0.9)), ToyStepper("b", constant_toy(0.6, 0.4))]
    drafter = MixtureDrafter(members)
    round_ = Setting(2, temperature=0.0).round([0], IndependentStream(1, "draft"))
    proposal = drafter.propose(round_)
    assert proposal.tokens == (1, 1) and not proposal.is_sampled


# union


def tree(*nodes: tuple[int, int, Distribution | None], name: str = "x") -> Proposal:
    return Proposal(
        tuple(node[1] for node in nodes),
        tuple(node[0] for node in nodes),
        (name,) * len(nodes),
        tuple(node[2] for node in nodes),
    )


def test_shared_prefixes_are_merged_level_by_level() -> None:
    a, b = Proposal.chain([1, 2, 3], "a"), Proposal.chain([1, 2, 4], "b")
    merged = merge(["a", "b"], [a, b], [[], []])
    assert merged.tokens == (1, 2, 3, 4) and merged.parents == (ROOT, 0, 1, 1)
    assert merged.drafters == ("a", "a", "a", "b")
    assert [(o.drafter, o.parent, o.token) for o in merged.predictions] == [
        ("a", ROOT, 1), ("a", 0, 2), ("a", 1, 3), ("b", ROOT, 1), ("b", 0, 2), ("b", 1, 4),
    ]  # fmt: skip
    assert merge(["a", "b"], [a, a], [[], []]).is_chain


def test_drawn_tokens_stand_once_for_each_draw() -> None:
    first, second = dense(0.5, 0.5), dense(0.4, 0.6)
    a = tree((ROOT, 1, first), (0, 0, first))
    b = tree((ROOT, 1, second), (0, 0, second))
    c = tree((ROOT, 1, None), (0, 0, None))
    merged = merge(["a", "b", "c"], [a, b, c], [[], [], []])
    assert merged.tokens == (1, 1, 1, 0, 0, 0) and merged.parents == (ROOT, ROOT, ROOT, 0, 1, 2)
    assert merged.distributions == (first, second, None, first, second, None)


def test_each_member_of_a_union_sees_its_own_outcome() -> None:
    right = ScriptedDrafter(lambda c, d: Proposal.chain([1, 2, 3], "right"), "right", 1)
    wrong = ScriptedDrafter(lambda c, d: Proposal.chain([1, 7], "wrong"), "wrong", 1)
    silent = ScriptedDrafter(scripted.empty, "silent", 1)
    drafter = UnionDrafter([right, wrong, silent])
    proposal = drafter.propose(Setting(3).round([0], IndependentStream(1, "draft")))
    assert proposal.tokens == (1, 2, 7, 3)
    p = tuple(Distribution.point_mass(token) for token in (1, 2, 3, 4))
    drafter.observe(Observation(proposal, (0, 1, 3), (1, 2, 3, 4), targets=p))
    assert right.observed[0].accepted_path == (0, 1, 2) and len(right.observed[0].targets) == 4
    assert wrong.observed[0].accepted_path == (0,) and wrong.observed[0].targets == p[:2]
    assert silent.observed[0].accepted_path == ()


def test_a_union_keeps_more_than_its_best_member() -> None:
    shown = rates(run(UnionDrafter(three()), 600))
    assert shown[""] > max(shown["good"], shown["fair"]) + 0.02


def test_a_union_asks_whether_each_node_pays() -> None:
    class Three(AlwaysDraft):
        def pays_to_add(self, probability: float, rows: int) -> bool:
            assert 0.0 < probability < 1.0
            return rows <= 3

    setting = Setting(4).round([0], IndependentStream(1, "draft"))
    members = [member("a", 1, 1.0), member("b", 2, 1.0)]
    proposal = UnionDrafter(members).propose(replace(setting, policy=Three(4)))
    assert len(proposal) == 3


# tree


def test_a_tree_has_the_next_best_tokens_by_joint_probability() -> None:
    model = ToyStepper("m", constant_toy(0.6, 0.3, 0.1))
    round_ = Setting(2, mode="argmax").round([0], IndependentStream(1, "draft"))
    proposal = TreeDrafter(model).propose(round_)
    assert proposal.tokens == (0, 0, 1, 1, 2, 2)
    assert proposal.parents == (ROOT, 0, ROOT, 0, ROOT, 0)
    small = TreeDrafter(model).propose(replace(round_, max_nodes=3))
    assert small.tokens == (0, 0, 1) and small.parents == (ROOT, 0, ROOT)


def test_drawn_siblings_share_their_distribution() -> None:
    round_ = Setting(3).round([0], IndependentStream(1, "draft"))
    proposal = TreeDrafter(ToyStepper("m", constant_toy(0.4, 0.3, 0.3))).propose(round_)
    assert len(proposal) == 6 and proposal.parents == (ROOT, 0, 1, ROOT, 0, 1)
    for trunk, sibling in ((0, 3), (1, 4), (2, 5)):
        assert proposal.distributions[trunk] is proposal.distributions[sibling]
        assert proposal.tokens[trunk] != proposal.tokens[sibling]


def test_a_tree_keeps_more_than_its_chain() -> None:
    chain = rates(run(VoteDrafter([member("a", 1, 1.5), member("b", 2, 1.5)]), 300))
    with_siblings = rates(
        run(TreeDrafter(VoteDrafter([member("a", 1, 1.5), member("b", 2, 1.5)])), 300)
    )
    assert with_siblings[""] > chain[""] + 0.05


# best


def test_best_follows_the_member_that_agrees_and_tries_the_others() -> None:
    rounds = run(BestDrafter([member("bad", 3, 30.0), member("good", 1, 0.5)]), 400)
    drafters = [trace.proposed[0].drafter for trace in rounds if trace.proposed]
    late = drafters[len(drafters) // 2 :]
    assert 0.02 < late.count("bad") / len(late) < 0.2


def test_best_goes_on_to_the_next_where_the_best_is_silent() -> None:
    drafter = BestDrafter([NgramDrafter(), member("good", 1, 0.5)])
    proposal = drafter.propose(Setting(2).round([1, 2], IndependentStream(1, "draft")))
    assert set(proposal.drafters) == {"good"}


# Weights


def test_weights_follow_the_rewards_and_forget() -> None:
    weights = MemberWeights(["a", "b"])
    assert weights.weights(["a", "b"]) == [0.5, 0.5]
    for _ in range(50):
        weights.learn({"a": 1.0, "b": 0.5})
    assert weights.weights(["a", "b"])[0] > 0.95
    for _ in range(200):
        weights.learn({"a": 0.5, "b": 1.0})
    assert weights.weights(["a", "b"])[1] > 0.95


def test_a_silent_member_neither_gains_nor_loses() -> None:
    weights = MemberWeights(["a", "b", "c"])
    before = weights.weights(["a", "c"])
    for _ in range(20):
        weights.learn({"b": 0.7})
    assert weights.weights(["a", "c"]) == before
    assert sum(weights.weights(["a", "b", "c"])) == pytest.approx(1.0)


# Opening groups


def build(starter_like: Path, library: Library) -> BuildContext:
    return BuildContext(
        target=Model(starter_like, ModelOptions(), library.log),
        context_length=64,
        threads=1,
        gpu_layers=0,
        abort=AbortFlag(),
        log=library.log,
        derived_folder=starter_like.parent / "derived",
        report=lambda label, fraction: None,
    )


def test_groups_open_what_they_name(tmp_path: Path, library: Library) -> None:
    shop = build(write_tiny_gguf(tmp_path / "tiny.gguf", layers=4), library)
    with shop.target:
        for text in (
            "union(ngram,early-exit:skip=1)",
            "tree(vote(ngram,early-exit:skip=1,early-exit:skip=2))",
            "best(mixture(ngram,early-exit:skip=1),ngram)",
        ):
            drafter = build_drafter(parse_expression(text), shop)
            assert drafter.name == text and drafter.memory_bytes > 0
            drafter.close()


def test_a_vote_refuses_members_that_cannot_go_token_by_token(
    tmp_path: Path, library: Library
) -> None:
    shop = build(write_tiny_gguf(tmp_path / "tiny.gguf", layers=4), library)
    with shop.target, pytest.raises(BadOptionError, match="token by token"):
        build_drafter(parse_expression("vote(ngram,first(early-exit:skip=1,ngram))"), shop)
