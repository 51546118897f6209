"""Token recycling: what the target ranked, what is drafted of it, and that the law is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine.control.controller import AlwaysDraft
from engine.data.errors import BadOptionError
from engine.data.events import Finished, Notice
from engine.data.folders import DataFolder
from engine.data.request import DraftParams, GenerateRequest, LoadRequest, SamplingParams
from engine.drafters.base import DraftRound, Observation
from engine.drafters.kinds.recycle import SUCCESSORS, RecycleDrafter
from engine.drafters.trees.static_tree import Choice, static_choices
from engine.llama.abort import AbortFlag
from engine.llama.library import Library
from engine.maths.acceptance import choose_rule, verify
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from engine.maths.randomness import IndependentStream
from engine.maths.ranking import Ranking, rank
from engine.maths.sampling import Sampler
from engine.serving.session import Session
from tests.engine.conftest import THREADS
from tests.engine.steppers import Setting
from tests.engine.toys import Toy, emitted, node_targets, random_toy, sequence_probability
from tests.fakes import BranchingStream, outcomes
from tests.tiny_gguf import write_tiny_gguf

VOCABULARY = 10


class TreePolicy(AlwaysDraft):
    """Says no to anything beside the chain."""

    def pays_to_add(self, probability: float, rows: int) -> bool:
        return False


def ranking(token: int, *ids: int) -> Ranking:
    count = len(ids)
    shares = np.arange(count, 0, -1, dtype=np.float32)
    return Ranking(token, np.array(ids, np.int32), shares / shares.sum())


def taught(choices: Sequence[Choice] = (), vocabulary: int = VOCABULARY) -> RecycleDrafter:
    """Has seen that n is followed by n + 1, else n + 2, else n + 3; nothing about the last one."""
    drafter = RecycleDrafter("recycle", vocabulary, choices)
    rankings = tuple(
        ranking(token, *((token + step) % vocabulary for step in (1, 2, 3)))
        for token in range(vocabulary - 1)
    )
    drafter.observe(Observation(EMPTY_PROPOSAL, (), (0,), rankings=rankings))
    return drafter


def round_(context: Sequence[int], depth: int = 4, policy: AlwaysDraft | None = None) -> DraftRound:
    return DraftRound(
        context=list(context),
        max_depth=depth,
        sampler=Sampler(SamplingParams()),
        mode="sampled",
        stream=IndependentStream(5, "draft"),
        policy=policy or AlwaysDraft(depth),
    )


@given(
    arrays.arrays(np.float32, st.integers(1, 1500), elements=st.floats(-9, 9, width=32)),
    st.integers(1, 12),
)
def test_ranking_is_what_sorting_gives(row: np.ndarray, count: int) -> None:
    found = rank(3, row, count)
    expected = np.argsort(-row, kind="stable")[:count]
    assert found.token == 3 and found.ids.tolist() == expected.tolist()
    weights = np.exp(row[expected].astype(np.float64))
    assert found.probabilities == pytest.approx(weights / weights.sum(), abs=1e-5)


def test_a_chain_follows_the_likeliest_successors() -> None:
    drafter = taught()
    assert drafter.propose(round_([7, 2])) == Proposal.chain([3, 4, 5, 6], "recycle")
    assert drafter.propose(round_([8])).tokens == (9,)  # nothing is known about 9
    assert drafter.propose(round_([9])) == EMPTY_PROPOSAL
    drafter.observe(Observation(EMPTY_PROPOSAL, (), (0,), rankings=(ranking(2, 8),)))
    assert drafter.propose(round_([2])).tokens == (8, 9)  # the last ranking counts


def test_rejected_rows_teach_as_well_and_later_chats_profit() -> None:
    drafter = RecycleDrafter("recycle", VOCABULARY)
    proposal = Proposal.chain([1, 2], "ngram")
    seen = (ranking(0, 5), ranking(1, 6), ranking(2, 7))
    drafter.observe(Observation(proposal, (), (5,), rankings=seen))
    drafter.begin([9, 1])
    assert drafter.propose(round_([9, 1])).tokens == (6,)


def test_confidence_follows_what_was_kept() -> None:
    drafter = taught()

    def confidence() -> float:
        drafter.start(round_([2]))
        return drafter.peek() or 0.0

    before = confidence()
    for _ in range(30):
        proposal = drafter.propose(round_([2], depth=1))
        drafter.observe(Observation(proposal, (), (9,)))
    assert confidence() < before / 3
    for _ in range(60):
        drafter.propose(round_([2], depth=1))
        drafter.observe(Observation(Proposal.chain([3, 4], "other"), (0,), (3,)))
    assert confidence() < before / 3  # nothing is learned from the rounds of others
    for _ in range(60):
        proposal = drafter.propose(round_([2], depth=1))
        drafter.observe(Observation(proposal, (0,), (3,)))
    assert confidence() > 0.6


@pytest.mark.parametrize("nodes", [1, 5, 24, 64])
def test_a_tree_starts_with_the_chain_and_stays_in_its_shape(nodes: int) -> None:
    choices = static_choices(nodes, 6)
    drafter = taught(choices)
    proposal = drafter.propose(round_([0], depth=6))
    trunk = [choice for choice in choices if set(choice) == {0}]
    assert proposal.tokens[: len(trunk)] == tuple(range(1, len(trunk) + 1))
    assert proposal.parents[: len(trunk)] == tuple(range(-1, len(trunk) - 1))
    assert len(trunk) <= len(proposal) <= nodes
    assert len(proposal.leaves()) <= drafter.max_leaves
    for parent in {ROOT, *range(len(proposal))}:
        tokens = [proposal.tokens[child] for child in proposal.children(parent)]
        before = 0 if parent == ROOT else proposal.tokens[parent]
        assert set(tokens) <= {(before + step) % VOCABULARY for step in (1, 2, 3)}
        assert len(set(tokens)) == len(tokens)


def test_a_tree_is_a_chain_where_siblings_do_not_pay() -> None:
    drafter = taught(static_choices(24, 6))
    proposal = drafter.propose(round_([0], depth=3, policy=TreePolicy(3)))
    assert proposal == Proposal.chain([1, 2, 3], "recycle")
    assert max(drafter.propose(round_([0], depth=2)).depths) == 2


def after(text: tuple[int, ...], p: Toy) -> Toy:
    return lambda prefix: p((*text, *prefix))


@pytest.mark.parametrize("nodes", [0, 7])
def test_the_law_is_the_targets(nodes: int) -> None:
    """Two rounds on a toy target, every random decision enumerated; the table grows between."""
    p = random_toy(11, 4)
    setting = Setting(depth=3)

    def run(stream: BranchingStream) -> tuple[int, ...]:
        drafter = taught(static_choices(nodes, 3) if nodes else (), vocabulary=4)
        text: tuple[int, ...] = (0,)
        for _ in range(2):
            proposal = drafter.propose(setting.round(text, stream))
            targets = node_targets(after(text, p), proposal)
            verdict = verify(proposal, targets, len(text), choose_rule(proposal, "best"), stream)
            new = emitted(proposal, verdict)
            rankings = tuple(
                ranking(token, *row.ids[np.argsort(-row.probabilities, kind="stable")].tolist())
                for token, row in zip((text[-1], *proposal.tokens), targets, strict=True)
            )
            drafter.observe(Observation(proposal, verdict.path, new, rankings=rankings))
            text += new
        return text[1:3]

    law: dict[tuple[int, ...], float] = {}
    for weight, text in outcomes(run):
        law[text] = law.get(text, 0.0) + weight
    assert len(law) == 16
    for text, mass in law.items():
        expected = sequence_probability(lambda prefix: p((0, *prefix)), text)
        assert mass == pytest.approx(expected, abs=1e-12)


# In a session


@pytest.fixture
def session(library: Library, tmp_path: Path) -> Iterator[Session]:
    session = Session(library, DataFolder(tmp_path / "data"), AbortFlag())
    yield session
    session.unload()


def reply(session: Session, speculate: bool, sampling: SamplingParams) -> Finished:
    drafting = DraftParams("always" if speculate else "off", 4, coupling="seed")
    request = GenerateRequest(
        raw_prompt="The old lighthouse keeper",
        max_tokens=24,
        sampling=sampling,
        drafting=drafting,
    )
    events = list(session.generate(request, lambda: False))
    assert not [event for event in events if isinstance(event, Notice)]
    assert isinstance(events[-1], Finished)
    return events[-1]


@pytest.mark.parametrize(
    "drafter",
    [
        "recycle",
        "recycle:tree=24",
        "tree(recycle)",
        "union(recycle:tree=9,ngram)",
        "vote(recycle,ngram)",
    ],
)
def test_texts_are_the_plain_ones(session: Session, tmp_path: Path, drafter: str) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf", layers=2)
    session.load(
        LoadRequest(str(target), drafter, context_length=256, threads=THREADS),
        lambda _label, _fraction: None,
    )
    summary = session.summary
    assert summary is not None
    size = summary.target.vocabulary_size
    assert summary.drafters[0].memory_bytes == size * SUCCESSORS * 8
    for sampling in (SamplingParams(temperature=0.0), SamplingParams(temperature=0.7, seed=3)):
        drafted, plain, again = (reply(session, on, sampling) for on in (True, False, True))
        assert drafted.tokens == plain.tokens == again.tokens
        assert plain.stats.proposed == 0
        assert again.stats.accepted > 0  # what the first reply showed is known now


@pytest.mark.parametrize(
    "wording", ["recycle:24", "recycle:tree=0", "recycle:tree=", "recycle:tree=65"]
)
def test_impossible_trees_are_refused(session: Session, tmp_path: Path, wording: str) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf")
    with pytest.raises(BadOptionError, match="tree=N"):
        session.load(LoadRequest(str(target), wording), lambda _label, _fraction: None)
