"""Trees that grow by joint probability: which nodes, in which order, asked how; and their law."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.control.controller import AlwaysDraft, NeverDraft
from engine.data.request import Coupling, DraftParams, GenerateRequest, SamplingParams
from engine.data.rounds import RoundTrace
from engine.decode.loop import DraftSetup, RoundLoop, Streams
from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.drafters.trees.expansion import BEAM, grow
from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from engine.maths.randomness import IndependentStream
from engine.maths.sampling import Sampler
from tests.engine.scripted import END, VOCABULARY, ToyTarget, ToyVocabulary, greedy_text, toy_logits
from tests.engine.steppers import Setting, assert_law
from tests.engine.toys import Prefix, Toy, random_toy


class ToyGrower:
    """A toy model that branches. passes: nodes evaluated in each."""

    name = "grown"
    description = "scripted"
    memory_bytes = 0
    needs: TargetNeeds = "nothing"
    max_leaves = 64

    def __init__(self, model: Toy, vocabulary: int, nodes: int, end: int = -1) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._nodes = nodes
        self._end = end
        self._text: Prefix = ()
        self._paths: list[Prefix] = []
        self.passes: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        pass

    def propose(self, round_: DraftRound) -> Proposal:
        return grow(self, round_, self._nodes)

    def observe(self, observation: Observation) -> None:
        pass

    def close(self) -> None:
        pass

    def start(self, round_: DraftRound) -> bool:
        self._text = tuple(round_.context)
        self._paths = []
        self.passes = []
        return True

    def first_row(self) -> NDArray[np.float32]:
        return self._row(())

    def branch(
        self, parents: Sequence[int], tokens: Sequence[int]
    ) -> Sequence[NDArray[np.float32]]:
        assert 1 <= len(tokens) <= BEAM
        above = [self._paths[parent] if parent != ROOT else () for parent in parents]
        new = [(*path, token) for path, token in zip(above, tokens, strict=True)]
        assert all(path[-1:] != (self._end,) for path in above)
        self._paths += new
        self.passes.append(len(new))
        return [self._row(path) for path in new]

    def ends(self, token: int) -> bool:
        return token == self._end

    def _row(self, path: Prefix) -> NDArray[np.float32]:
        q = self._model(self._text + path)
        row = np.full(self._vocabulary, -np.inf, np.float32)
        row[q.ids] = np.log(q.probabilities)
        return row


class Recording(AlwaysDraft):
    """Says no from the node number `nodes` on, or from the level `levels` on."""

    def __init__(self, nodes: int = 99, levels: int = 99) -> None:
        super().__init__(9)
        self._nodes = nodes
        self._levels = levels
        self.confidences: list[float] = []

    def should_continue(self, depth: int, confidence: float) -> bool:
        self.confidences.append(confidence)
        return depth <= self._levels

    def pays_to_add(self, probability: float, rows: int) -> bool:
        return rows <= self._nodes


def round_of(depth: int, policy: AlwaysDraft | NeverDraft, max_nodes: int = 64) -> DraftRound:
    return DraftRound(
        context=[1, 2],
        max_depth=depth,
        sampler=Sampler(SamplingParams(temperature=1.0)),
        mode="sampled",
        stream=IndependentStream(5, "draft"),
        policy=policy,
        max_nodes=max_nodes,
    )


def chances(model: Toy, proposal: Proposal) -> list[float]:
    """Joint probability of every node's path after the context (1, 2)."""
    found = []
    for node in range(len(proposal)):
        path = tuple(proposal.tokens[index] for index in proposal.path(node))
        found.append(_chance(model, path))
    return found


def _chance(model: Toy, path: Prefix) -> float:
    return math.prod(model((1, 2, *path[:i])).probability(path[i]) for i in range(len(path)))


# Which nodes


@given(st.integers(0, 99), st.integers(2, 5), st.integers(1, BEAM), st.integers(1, 3))
def test_the_likeliest_nodes_of_all_are_proposed(
    seed: int, vocabulary: int, nodes: int, depth: int
) -> None:
    model = random_toy(seed, vocabulary)
    proposal = ToyGrower(model, vocabulary, nodes).propose(round_of(depth, AlwaysDraft(9)))
    every = (
        path
        for length in range(1, depth + 1)
        for path in itertools.product(range(vocabulary), repeat=length)
    )
    best = sorted((_chance(model, path) for path in every), reverse=True)[:nodes]
    assert chances(model, proposal) == pytest.approx(best, rel=1e-5)


@given(st.integers(0, 99), st.integers(2, 30), st.integers(1, 64), st.integers(1, 6))
def test_trees_are_whole_ordered_and_no_larger_than_asked(
    seed: int, vocabulary: int, nodes: int, depth: int
) -> None:
    model = random_toy(seed, vocabulary, holes=True)
    grower = ToyGrower(model, vocabulary, nodes)
    max_nodes = 1 + seed % 64
    proposal = grower.propose(round_of(depth, AlwaysDraft(9), max_nodes))
    assert 1 <= len(proposal) <= min(nodes, max_nodes)
    assert max(proposal.depths) <= depth
    found = chances(model, proposal)
    assert all(after <= before * (1 + 1e-5) for before, after in itertools.pairwise(found))
    assert min(found) > 0.0, "nothing impossible"
    assert set(proposal.distributions) == {None} and set(proposal.drafters) == {"grown"}
    for node in range(-1, len(proposal)):
        siblings = [proposal.tokens[child] for child in proposal.children(node)]
        assert len(siblings) == len(set(siblings))
    assert len(grower.passes) < depth and max(grower.passes, default=0) <= BEAM


def test_a_sure_draft_becomes_a_chain_and_an_unsure_one_a_bush() -> None:
    def model(chance: float) -> Toy:
        rest = (1.0 - chance) / 9
        masses = np.array([chance] + [rest] * 9)
        return lambda prefix: Distribution(np.arange(10), masses)

    deep = ToyGrower(model(0.99), 10, 6).propose(round_of(6, AlwaysDraft(9)))
    assert deep == Proposal.chain([0] * 6, "grown")
    flat = ToyGrower(model(0.11), 10, 6).propose(round_of(6, AlwaysDraft(9)))
    assert set(flat.depths) == {1}


def test_nothing_follows_the_end_of_a_reply() -> None:
    model = random_toy(3, 4)
    proposal = ToyGrower(model, 4, 30, end=2).propose(round_of(4, AlwaysDraft(9)))
    ends = [node for node, token in enumerate(proposal.tokens) if token == 2]
    assert ends and not any(proposal.children(node) for node in ends)


# The controller


def test_a_parked_drafter_does_no_work() -> None:
    grower = ToyGrower(random_toy(1, 5), 5, 9)
    assert grower.propose(round_of(4, NeverDraft())) == EMPTY_PROPOSAL
    assert grower.passes == []


@pytest.mark.parametrize("nodes", [0, 1, 3, 7])
def test_no_node_is_added_that_is_not_worth_it(nodes: int) -> None:
    grower = ToyGrower(random_toy(1, 5), 5, 9)
    everything = grower.propose(round_of(3, AlwaysDraft(9)))
    proposal = grower.propose(round_of(3, Recording(nodes=nodes)))
    assert len(proposal) == nodes
    assert proposal == everything.first_nodes(nodes), "the likeliest ones are left"
    assert all(count <= nodes for count in grower.passes), "nor is work done for it"


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_no_level_is_added_that_the_controller_refuses(levels: int) -> None:
    policy = Recording(levels=levels)
    model = random_toy(1, 5)
    proposal = ToyGrower(model, 5, 40).propose(round_of(5, policy))
    assert max(proposal.depths, default=0) == levels
    assert len(policy.confidences) == levels + 1
    assert policy.confidences[0] == pytest.approx(model((1, 2)).probabilities.max())
    assert all(0.0 < confidence <= 1.0 for confidence in policy.confidences)


# The law


@pytest.mark.parametrize("nodes", [1, 2, 4, 8])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("coupling", ["best", "seed"])
def test_one_round_keeps_the_target_law(nodes: int, depth: int, coupling: Coupling) -> None:
    assert_law(
        random_toy(50, 3),
        lambda: ToyGrower(random_toy(41, 3), 3, nodes),
        1,
        Setting(depth, coupling=coupling),
        depth + 1,
    )


def test_several_rounds_keep_the_target_law() -> None:
    setting = Setting(2, max_nodes=4)
    assert_law(random_toy(51, 3), lambda: ToyGrower(random_toy(42, 3), 3, 6), 2, setting, 3)


# In the round loop


def near_target(prefix: Prefix) -> Distribution:
    """The toy target's own distribution, blurred: right often, not always."""
    row = toy_logits(prefix).astype(np.float64)
    row += np.random.default_rng(len(prefix)).normal(0.0, 1.5, VOCABULARY)
    mass = np.exp(row - row.max())
    return Distribution(np.arange(VOCABULARY), mass / mass.sum())


def test_traces_show_the_tree_and_the_path_through_it() -> None:
    target = ToyTarget()
    grower = ToyGrower(near_target, VOCABULARY, 10, end=END)
    stream = IndependentStream(1, "target")
    loop = RoundLoop(
        target,
        DraftSetup(grower, AlwaysDraft(4), 11),
        GenerateRequest(
            raw_prompt="x",
            max_tokens=60,
            sampling=SamplingParams(temperature=0.0),
            drafting=DraftParams("always", 4),
        ),
        Streams(stream, IndependentStream(1, "draft")),
    )
    prompt = [1, 2, 3]
    target.tokens = prompt[:-1]
    traces = [
        event
        for event in loop.run(list(prompt), ToyVocabulary(), lambda: False)
        if isinstance(event, RoundTrace)
    ]
    emitted = [token.token for trace in traces for token in trace.emitted]
    assert emitted == greedy_text(toy_logits, prompt, 60)
    assert max(target.widths) == 11
    branched = 0
    for trace in traces:
        kept = [index for index, node in enumerate(trace.proposed) if node.accepted]
        assert [trace.proposed[index].parent for index in kept] == [ROOT, *kept][: len(kept)]
        assert [trace.proposed[index].token for index in kept] == [
            token.token for token in trace.emitted if token.kind == "accepted"
        ]
        parents = [node.parent for node in trace.proposed]
        branched += len(set(parents)) < len(parents)
        assert all(node.q is None and node.drafter == "grown" for node in trace.proposed)
    assert branched > 5 and len(traces) < 45
