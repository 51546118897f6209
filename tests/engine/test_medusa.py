"""Medusa heads as a drafter: shapes of proposals, and replies of a tiny target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.control.controller import AlwaysDraft, NeverDraft
from engine.data.errors import BadOptionError, IncompatiblePairError, NativeError, UnknownModelError
from engine.data.request import DraftMode, SamplingParams
from engine.drafters.base import DraftRound, Observation
from engine.drafters.build_context import BuildContext
from engine.drafters.features.medusa import MedusaDrafter
from engine.drafters.features.medusa_graph import MedusaGraph
from engine.drafters.heads_argument import HeadsArgument, parse_heads
from engine.drafters.parse import parse_expression
from engine.drafters.trees.static_tree import leaf_count, parents_of, static_choices
from engine.heads.medusa_file import trimmed, write_medusa
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from engine.maths.randomness import IndependentStream
from engine.maths.sampling import Sampler
from tests.engine.conftest import THREADS
from tests.engine.head_files import medusa_arrays, medusa_heads
from tests.engine.open_drafter import build_drafter
from tests.engine.tiny_replies import TinyReply
from tests.tiny_gguf import write_tiny_gguf

PROMPT = [72, 101, 108, 108, 111, 44, 32, 119]


class FakeGraph:
    """Head i ranks its rows (5 + i), (6 + i), ... of 20."""

    count = 3
    bytes = 7

    def __init__(self) -> None:
        self.states: list[float] = []
        self.closed = 0

    def run(self, hidden: NDArray[np.float32]) -> None:
        self.states.append(float(hidden[0]))

    def logits(self, head: int) -> NDArray[np.float32]:
        return -np.roll(np.arange(20, dtype=np.float32), 5 + head)

    def close(self) -> None:
        self.closed += 1


def draft_round(depth: int = 9, parked: bool = False, mode: DraftMode = "argmax") -> DraftRound:
    return DraftRound(
        context=[1, 2, 3],
        max_depth=depth,
        sampler=Sampler(SamplingParams(temperature=1.0)),
        mode=mode,
        stream=IndependentStream(5, "draft"),
        policy=NeverDraft() if parked else AlwaysDraft(depth),
    )


def seen(drafter: MedusaDrafter, *states: float) -> None:
    features = np.array(states, np.float32)[:, None]
    drafter.observe(Observation(EMPTY_PROPOSAL, (), (1,), features))


# Shapes


@given(nodes=st.integers(1, 64), depth=st.integers(1, 5))
def test_static_trees_hold_every_parent_before_its_children(nodes: int, depth: int) -> None:
    choices = static_choices(nodes, depth)
    assert len(choices) == len(set(choices)) == min(nodes, sum(10**d for d in range(1, depth + 1)))
    parents = parents_of(choices)
    for choice, parent in zip(choices, parents, strict=True):
        assert 1 <= len(choice) <= depth
        assert (parent == ROOT) == (len(choice) == 1)
        assert parent == ROOT or choices[parent] == choice[:-1]
    tree = Proposal((0,) * len(choices), parents, ("m",) * len(choices), (None,) * len(choices))
    assert leaf_count(choices) == len(tree.leaves())


def test_a_larger_tree_holds_the_smaller_one() -> None:
    for nodes in range(1, 63):
        assert set(static_choices(nodes, 4)) < set(static_choices(nodes + 1, 4))


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("", HeadsArgument(0, "")),
        ("/some/where", HeadsArgument(0, "/some/where")),
        ("C:\\heads.gguf", HeadsArgument(0, "C:\\heads.gguf")),
        ("tree=24:/a:b", HeadsArgument(24, "/a:b")),
        ("tree=24", HeadsArgument(24, "")),
    ],
)
def test_arguments_of_heads(argument: str, expected: HeadsArgument) -> None:
    assert parse_heads("medusa", argument) == expected
    assert str(parse_expression(f"medusa:{argument}".rstrip(":"))).startswith("medusa")


@pytest.mark.parametrize("argument", ["tree=0:F", "tree=65:F", "tree=x:F", "tree=:F"])
def test_impossible_trees(argument: str) -> None:
    with pytest.raises(BadOptionError):
        parse_expression(f"medusa:{argument}")


# Proposals


def test_the_first_round_of_a_reply_proposes_nothing() -> None:
    drafter = MedusaDrafter("m", FakeGraph(), 200)
    drafter.begin([1, 2])
    assert drafter.propose(draft_round()) == EMPTY_PROPOSAL
    seen(drafter, 1.0)
    assert len(drafter.propose(draft_round())) == 3
    drafter.begin([1, 2])
    assert drafter.propose(draft_round()) == EMPTY_PROPOSAL


def test_the_last_row_of_the_accepted_path_is_read() -> None:
    graph = FakeGraph()
    drafter = MedusaDrafter("m", graph, 20)
    seen(drafter, 4.0, 5.0, 6.0)
    assert drafter.propose(draft_round()) == Proposal.chain([5, 6, 7], "m")
    assert graph.states == [6.0]
    drafter.close()
    assert graph.closed == 1


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_depth_limits_and_parking(depth: int) -> None:
    drafter = MedusaDrafter("m", FakeGraph(), 200)
    seen(drafter, 1.0)
    assert drafter.propose(draft_round(depth)).tokens == tuple(range(5, 5 + depth))
    assert drafter.propose(draft_round(depth, parked=True)) == EMPTY_PROPOSAL


def test_a_tree_takes_the_next_best_tokens_in_rank_order() -> None:
    choices = [(0,), (1,), (0, 0), (0, 2), (1, 1)]
    drafter = MedusaDrafter("m", FakeGraph(), 200, choices=choices)
    seen(drafter, 1.0)
    proposal = drafter.propose(draft_round())
    assert proposal.tokens == (5, 6, 6, 8, 7)
    assert proposal.parents == (ROOT, ROOT, 0, 0, 1)
    assert drafter.max_leaves == 3
    assert drafter.propose(draft_round(1)).tokens == (5, 6)


def test_trimmed_heads_name_the_target_s_tokens() -> None:
    drafter = MedusaDrafter("m", FakeGraph(), 200, token_ids=np.arange(100, 140, 2))
    seen(drafter, 1.0)
    assert drafter.propose(draft_round()).tokens == (110, 112, 114)


def test_chains_carry_the_distribution_they_were_drawn_from() -> None:
    drafter = MedusaDrafter("m", FakeGraph(), 140, token_ids=np.arange(100, 140, 2))
    seen(drafter, 1.0)
    proposal = drafter.propose(draft_round(mode="sampled"))
    assert len(proposal) == 3
    for head, (token, q) in enumerate(zip(proposal.tokens, proposal.distributions, strict=True)):
        assert q is not None and token in q.ids.tolist()
        assert q.most_likely() == 110 + 2 * head
        assert set(q.ids.tolist()) <= set(range(100, 140, 2))


# A tiny target


@pytest.fixture(scope="module")
def target(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = write_tiny_gguf(tmp_path_factory.mktemp("medusa") / "target.gguf", layers=3)
    with Model(path, ModelOptions(), library.log) as model:
        yield model


@pytest.fixture
def context(target: Model) -> Iterator[Context]:
    options = ContextOptions(256, 33, THREADS, max_leaves=16, embeddings=True)
    with Context(target, options, AbortFlag()) as context:
        yield context


def build(target: Model, library: Library, folder: Path) -> BuildContext:
    return BuildContext(
        target, 256, THREADS, 0, AbortFlag(), library.log, folder, lambda _a, _b: None
    )


def common_tokens(context: Context, prompt: Sequence[int] = PROMPT) -> list[int]:
    """Tokens of the plain reply: heads that know only those are right now and then."""
    return sorted(set(TinyReply(context, None, prompt).tokens))


@pytest.mark.parametrize("wording", ["medusa:{}", "medusa:tree=16:{}", "tree(medusa:{})"])
@pytest.mark.parametrize("seed", [None, 3])
def test_replies_are_the_plain_ones(
    target: Model,
    context: Context,
    library: Library,
    tmp_path: Path,
    wording: str,
    seed: int | None,
) -> None:
    sampling = SamplingParams(temperature=0.0 if seed is None else 0.7, seed=seed)
    plain = TinyReply(context, None, PROMPT, sampling=sampling)
    arrays = medusa_arrays(target.hidden_size, target.vocab.size)
    ids = np.array(sorted(set(plain.tokens)))
    write_medusa(tmp_path / "heads.gguf", trimmed(medusa_heads(arrays), ids))
    expression = parse_expression(wording.format(tmp_path / "heads.gguf"))
    drafter = build_drafter(expression, build(target, library, tmp_path))
    assert drafter.memory_bytes > 3 * 34 * target.hidden_size**2 // 32
    for _ in range(2):  # the second one reuses the cache
        reply = TinyReply(context, drafter, PROMPT, sampling=sampling)
        assert reply.tokens == plain.tokens
        assert not reply.rounds[0].proposed
        assert all(trace.proposed for trace in reply.rounds[1:-4])
    assert reply.accepted > 0
    drafter.close()


def test_a_chat_goes_on_after_a_head_failed(target: Model, context: Context) -> None:
    class Failing(FakeGraph):
        def run(self, hidden: NDArray[np.float32]) -> None:
            super().run(hidden)
            if len(self.states) == 3:
                raise NativeError("a tensor graph failed with status -1")

    plain = TinyReply(context, None, PROMPT)
    reply = TinyReply(context, MedusaDrafter("m", Failing(), 283), PROMPT)
    assert reply.tokens == plain.tokens
    assert len(reply.notices) == 1 and "status -1" in reply.notices[0]


class RecordingGraph(MedusaGraph):
    """Keeps the hidden states it is run with."""

    def run(self, hidden: NDArray[np.float32]) -> None:
        self.states = [*getattr(self, "states", []), hidden.copy()]
        super().run(hidden)


def test_heads_see_the_hidden_state_of_their_row(target: Model, context: Context) -> None:
    """States after drafts with rejections are those of the accepted text alone."""
    arrays = medusa_arrays(target.hidden_size, target.vocab.size)
    ids = np.array(common_tokens(context))
    graph = RecordingGraph(trimmed(medusa_heads(arrays), ids), THREADS, "F32")
    drafter = MedusaDrafter("m", graph, 283, ids, static_choices(12, 3))
    reply = TinyReply(context, drafter, PROMPT)
    assert reply.accepted > 0
    text = [*PROMPT, *reply.tokens]
    positions = [trace.position for trace in reply.rounds if trace.proposed]
    assert len(positions) == len(graph.states) >= 5
    context.clear()
    context.extend(text[:16])  # as many rows as one pass takes
    expected = context.hidden_states(16)
    for position, state in zip(positions, graph.states, strict=True):
        if position - 2 < 16:
            np.testing.assert_allclose(state, expected[position - 2], atol=1e-2)
    drafter.close()


@pytest.mark.parametrize(
    ("argument", "error"),
    [("medusa", UnknownModelError), ("medusa:missing", UnknownModelError)],
)
def test_missing_heads(
    target: Model, library: Library, tmp_path: Path, argument: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        build_drafter(parse_expression(argument), build(target, library, tmp_path))


def test_heads_of_another_model(target: Model, library: Library, tmp_path: Path) -> None:
    write_medusa(tmp_path / "a.gguf", medusa_heads(medusa_arrays(32, target.vocab.size)))
    expression = parse_expression(f"medusa:{tmp_path / 'a.gguf'}")
    with pytest.raises(IncompatiblePairError, match="hidden size of 32, not 64"):
        build_drafter(expression, build(target, library, tmp_path))
