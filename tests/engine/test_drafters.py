"""Drafters one by one: expressions, the n-gram drafter, first(...), copies without layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.control.controller import AlwaysDraft
from engine.derived import default_skip, derived_path, requantized_copy, skipped_copy
from engine.drafters.base import DraftPolicy, DraftRound, Observation
from engine.drafters.copying import CopyConfidence, Evidence
from engine.drafters.expression import parse_expression, parse_skip
from engine.drafters.first import FirstDrafter
from engine.drafters.model import ModelDrafter, SameTokens
from engine.drafters.ngram import NgramDrafter
from engine.errors import BadOptionError, DrafterError, RunError
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.models.gguf import inspect
from engine.models.pair import require_pair
from engine.proposal import EMPTY_PROPOSAL, Proposal
from engine.randomness import IndependentStream
from engine.request import DraftMode, SamplingParams
from engine.sampling import Sampler
from tests.engine import scripted
from tests.engine.scripted import ScriptedDrafter
from tests.tiny_gguf import write_tiny_gguf


def draft_round(
    context: Sequence[int],
    depth: int = 4,
    policy: DraftPolicy | None = None,
    sampling: SamplingParams | None = None,
    mode: DraftMode = "sampled",
) -> DraftRound:
    return DraftRound(
        context=list(context),
        max_depth=depth,
        sampler=Sampler(sampling or SamplingParams()),
        mode=mode,
        stream=IndependentStream(5, "draft"),
        policy=policy or AlwaysDraft(depth),
    )


class AskedPolicy:
    """Keeps what it is asked; says no from depth `stop` on."""

    def __init__(self, stop: int = 99, start: bool = True) -> None:
        self.asked: list[tuple[int, float]] = []
        self._stop = stop
        self._start = start

    def may_catch_up(self, drafter: str, tokens: int) -> bool:
        return True

    def may_start(self, drafter: str) -> bool:
        return self._start

    def may_look(self, drafter: str, depth: int) -> bool:
        return True

    def should_continue(self, drafter: str, depth: int, confidence: float) -> bool:
        self.asked.append((depth, confidence))
        return depth < self._stop

    def worth_adding(self, drafter: str, chance: float, rows: int) -> bool:
        return True

    def worth(self, drafter: str, confidence: float | None = None) -> float:
        return 0.0


# Expressions


@pytest.mark.parametrize(
    ("text", "shown", "leaves"),
    [
        ("ngram", "ngram", 1),
        (" ngram ", "ngram", 1),
        ("model:starter", "model:starter", 1),
        ("model:hub:owner/repo/a.gguf", "model:hub:owner/repo/a.gguf", 1),
        ("model:/some/path (1)/a.gguf", "model:/some/path (1)/a.gguf", 1),
        ("early-exit", "early-exit", 1),
        ("early-exit:skip=13+10", "early-exit:skip=13+10", 1),
        ("first(ngram,model:a)", "first(ngram,model:a)", 2),
        ("first(ngram, first(early-exit,model:a))", "first(ngram,first(early-exit,model:a))", 3),
        ("tli:gemma3-270m", "tli:gemma3-270m", 1),
        ("vote(ngram,model:a,tli:b)", "vote(ngram,model:a,tli:b)", 3),
        ("union(tree(vote(ngram,early-exit)),model:a)",) * 2 + (3,),
        ("mixture(model:a,best(model:b,ngram))", "mixture(model:a,best(model:b,ngram))", 3),
    ],
)
def test_drafter_expressions(text: str, shown: str, leaves: int) -> None:
    expression = parse_expression(text)
    assert str(expression) == shown
    assert len(expression.leaves()) == leaves
    assert parse_expression(shown) == expression


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "model",
        "model:",
        "ngram:3",
        "first(ngram)",
        "first()",
        "first(ngram,)",
        "first(ngram,model:a",
        "first(ngram,model:a))",
        "second(ngram,model:a)",
        "early-exit:skip=",
        "early-exit:skip=a",
        "early-exit:layers=3",
        "first(ngram),(ngram)",
        "tli:",
        "vote(ngram,ngram)",
        "tree(ngram,model:a)",
        "tree()",
        "tree",
    ],
)
def test_wrong_drafter_expressions_are_options_errors(text: str) -> None:
    with pytest.raises(BadOptionError):
        parse_expression(text)


def test_layers_to_skip_are_sorted_and_unique() -> None:
    assert parse_skip("skip=16+10+13+10") == (10, 13, 16)


# The n-gram drafter


def test_ngram_abstains_without_evidence() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 4, 1, 2])
    assert drafter.propose(draft_round([1, 2, 3, 4, 1, 2])) == EMPTY_PROPOSAL
    assert len(drafter.propose(draft_round([1, 2, 3, 4, 1, 2, 3]))) > 0


def test_ngram_copies_what_followed_the_match() -> None:
    text = [7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    drafter = NgramDrafter()
    drafter.begin(text)
    proposal = drafter.propose(draft_round(text, depth=4))
    assert proposal == Proposal.chain([1, 2, 3, 4], "ngram")


def test_ngram_goes_round_in_a_repetition() -> None:
    text = [5, 6] * 10
    drafter = NgramDrafter()
    drafter.begin(text)
    assert drafter.propose(draft_round(text, depth=9)).tokens == (5, 6, 5, 6, 5, 6, 5, 6, 5)


def test_ngram_asks_before_every_token_and_stops_when_told() -> None:
    text = [7, 8, 9, 1, 2, 3, 4, 7, 8, 9]
    drafter = NgramDrafter()
    drafter.begin(text)
    policy = AskedPolicy(stop=3)
    assert drafter.propose(draft_round(text, policy=policy)).tokens == (1, 2)
    assert [depth for depth, _ in policy.asked] == [1, 2, 3]
    assert all(0.0 < confidence < 1.0 for _, confidence in policy.asked)
    assert drafter.propose(draft_round(text, policy=AskedPolicy(start=False))) == EMPTY_PROPOSAL


def test_ngram_forgets_a_chat_that_was_edited() -> None:
    drafter = NgramDrafter()
    drafter.begin([7, 8, 9, 1, 2, 3, 7, 8, 9])
    edited = [4, 4, 1, 5, 7, 8, 9]
    drafter.begin(edited)
    assert drafter.propose(draft_round(edited)) == EMPTY_PROPOSAL


def test_ngram_confidence_follows_what_was_kept() -> None:
    confidence = CopyConfidence()
    short, long, other = Evidence(5, 1, 1), Evidence(20, 1, 1), Evidence(3, 1, 1)
    before = confidence.estimate(short)
    for _ in range(50):
        confidence.learn(short, kept=False)
        confidence.learn(long, kept=True)
    assert confidence.estimate(short) < 0.1 < before
    assert confidence.estimate(long) > 0.95
    assert confidence.estimate(other) == CopyConfidence().estimate(other)


def test_ngram_learns_once_from_each_draft() -> None:
    text = [7, 8, 9, 1, 2, 3, 4, 7, 8, 9]
    drafter = NgramDrafter()
    drafter.begin(text)

    def first_confidence() -> float:
        policy = AskedPolicy()
        drafter.propose(draft_round(text, policy=policy))
        return policy.asked[0][1]

    before = first_confidence()
    drafter.observe(Observation(Proposal.chain([1, 2], "ngram"), (), (5,)))
    after = first_confidence()
    assert after < before
    drafter.observe(Observation(Proposal.chain([9], "other"), (), (5,)))
    drafter.observe(Observation(Proposal.chain([9], "other"), (), (5,)))
    assert first_confidence() < after  # the draft just made, not the rounds of others
    before = first_confidence()
    drafter.observe(Observation(Proposal.chain([9, 2], "other"), (0, 1), (1, 2, 5)))
    assert first_confidence() > before


# first(...)


def test_first_takes_the_first_member_that_proposes() -> None:
    oracle = scripted.toy_oracle()
    silent = ScriptedDrafter(scripted.empty, "silent", max_leaves=1)
    wrong = ScriptedDrafter(scripted.wrong(oracle), "wrong", max_leaves=1)
    right = ScriptedDrafter(scripted.right(oracle), "right", max_leaves=3)
    drafter = FirstDrafter([silent, wrong, right])
    assert drafter.name == "first(silent,wrong,right)" and drafter.max_leaves == 3
    drafter.begin([1, 2, 3])
    assert silent.begun == wrong.begun == right.begun == [[1, 2, 3]]
    context = [1, 2, 3]
    assert drafter.propose(draft_round(context)).tokens == scripted.wrong(oracle)(context, 4).tokens
    assert right.contexts == []
    drafter.observe(Observation(EMPTY_PROPOSAL, (), (4,)))
    assert len(silent.observed) == len(wrong.observed) == len(right.observed) == 1
    drafter.close()
    assert silent.closed == wrong.closed == right.closed == 1


# Copies without layers


@pytest.mark.parametrize("layers", [1, 2, 4, 7, 16, 28, 30, 32, 80])
def test_default_skip_spares_both_ends(layers: int) -> None:
    skip = default_skip(layers)
    assert len(skip) == max(1, round(layers / 15))
    assert all(0 <= layer < layers for layer in skip)
    if layers >= 7:
        assert 0 not in skip and layers - 1 not in skip


def test_a_copy_without_layers_is_made_once(tmp_path: Path, library: Library) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", layers=4)
    folder = tmp_path / "derived"
    reported: list[float] = []
    made = skipped_copy(source, 4, (2, 1), folder, library.log, reported.append)
    assert inspect(made).block_count == 2
    assert [path.name for path in folder.iterdir()] == [made.name]
    before = made.stat().st_mtime_ns
    assert skipped_copy(source, 4, (1, 2), folder, library.log, reported.append) == made
    assert made.stat().st_mtime_ns == before
    assert all(0.0 <= fraction <= 1.0 for fraction in reported)


def test_a_replaced_source_gets_a_new_copy(tmp_path: Path, library: Library) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", layers=4)
    first = derived_path(source, "skip-1", tmp_path)
    write_tiny_gguf(source, layers=5)
    assert derived_path(source, "skip-1", tmp_path) != first


@pytest.mark.parametrize("skip", [(), (4,), (-1,), (0, 1, 2, 3)])
def test_impossible_layers_are_refused(
    skip: tuple[int, ...], tmp_path: Path, library: Library
) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", layers=4)
    with pytest.raises(BadOptionError, match="0 to 3"):
        skipped_copy(source, 4, skip, tmp_path / "derived", library.log, lambda _: None)
    assert not (tmp_path / "derived").exists()


def test_a_failed_copy_leaves_nothing(tmp_path: Path, library: Library) -> None:
    source = tmp_path / "broken.gguf"
    source.write_bytes(write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()[:20_000])
    folder = tmp_path / "derived"
    with pytest.raises(RunError):
        skipped_copy(source, 2, (1,), folder, library.log, lambda _: None)
    assert list(folder.iterdir()) == []


def test_a_copy_that_cannot_be_stored_is_a_run_error(tmp_path: Path, library: Library) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "derived").write_text("a file where the folder should be")
    with pytest.raises(RunError, match="derived"):
        skipped_copy(source, 2, (1,), tmp_path / "derived", library.log, lambda _: None)


def test_an_unknown_format_is_refused(tmp_path: Path, library: Library) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf")
    with pytest.raises(BadOptionError, match="Q9"):
        requantized_copy(source, "Q9", tmp_path / "derived", library.log, lambda _: None)
    assert list((tmp_path / "derived").iterdir()) == []


# A draft model whose vocabulary is shorter than the target's


class TinyPair:
    def __init__(self, folder: Path, library: Library) -> None:
        self.target_path = write_tiny_gguf(folder / "target.gguf", vocabulary_size=300)
        drafter_path = write_tiny_gguf(folder / "drafter.gguf", noise=0.1)
        self.report = require_pair(self.target_path, drafter_path)
        self.model = Model(drafter_path, ModelOptions(), library.log)
        self.context = Context(self.model, ContextOptions(128, 1, 1), AbortFlag())
        self.drafter = ModelDrafter(
            "model:drafter",
            self.context,
            SameTokens(self.report.draft_limit, self.model.vocab.size),
            0,
            self.model.close,
        )


@pytest.fixture
def pair(tmp_path: Path, library: Library) -> Iterator[TinyPair]:
    pair = TinyPair(tmp_path, library)
    yield pair
    pair.drafter.close()


def test_padding_is_never_drafted(pair: TinyPair) -> None:
    assert pair.report.draft_limit == pair.model.vocab.size < 300
    pair.drafter.begin([5, 6, 7])
    sampling = SamplingParams(temperature=50.0)
    for _ in range(5):
        proposal = pair.drafter.propose(draft_round([5, 6, 7], depth=8, sampling=sampling))
        assert len(proposal) and max(proposal.tokens) < pair.report.draft_limit
        for q in proposal.distributions:
            assert q is not None and int(q.ids[-1]) < pair.report.draft_limit


@pytest.mark.parametrize("place", [0, 2, 3])
def test_a_text_with_a_token_the_drafter_lacks_is_refused(pair: TinyPair, place: int) -> None:
    text = [5, 6, 7, 8]
    text[place] = 299
    with pytest.raises(DrafterError, match="lacks"):
        pair.drafter.begin(text)
        pair.drafter.propose(draft_round(text))
    pair.drafter.begin([5, 6, 7, 8])
    assert len(pair.drafter.propose(draft_round([5, 6, 7, 8])))


def test_drafts_are_what_the_model_alone_would_write(pair: TinyPair) -> None:
    """Greedy, after rejections, parked rounds and an edited text."""
    alone = Context(pair.model, ContextOptions(128, 16, 1), AbortFlag())

    def greedy(context: list[int], count: int) -> tuple[int, ...]:
        alone.clear()
        tokens: list[int] = []
        while len(tokens) < count:
            alone.clear()
            row = alone.extend_to_last([*context, *tokens])
            tokens.append(int(np.argmax(row)))
            if pair.model.vocab.ends_generation(tokens[-1]):
                break
        return tuple(tokens)

    generator = np.random.default_rng(3)
    context = [5, 6, 7]
    with alone:
        pair.drafter.begin(context)
        for turn in range(12):
            depth = int(generator.integers(1, 6))
            drafted = pair.drafter.propose(draft_round(context, depth)).tokens
            assert drafted == greedy(context, depth)
            kept = int(generator.integers(0, len(drafted) + 1))
            context = [*context, *drafted[:kept], int(generator.integers(0, 250))]
            if turn == 5:
                context = [*context, *(int(t) for t in generator.integers(0, 250, 20))]
            if turn == 8:
                context = [5, 6, *(int(t) for t in generator.integers(0, 250, 20))]
                pair.drafter.begin(context)


def test_drafting_ends_where_the_drafters_context_ends(pair: TinyPair) -> None:
    text = [5 + i % 40 for i in range(126)]
    pair.drafter.begin(text)
    assert len(pair.drafter.propose(draft_round(text, depth=30))) <= 3
    assert pair.drafter.propose(draft_round([*text, 1, 2, 3], depth=30)) == EMPTY_PROPOSAL


def test_the_policy_is_asked_before_every_draw(pair: TinyPair) -> None:
    pair.drafter.begin([5, 6, 7])
    policy = AskedPolicy(stop=3)
    proposal = pair.drafter.propose(draft_round([5, 6, 7], depth=8, policy=policy))
    assert len(proposal) == 2 and [depth for depth, _ in policy.asked] == [1, 2, 3]
    assert all(0.0 < confidence <= 1.0 for _, confidence in policy.asked)
    refused = AskedPolicy(start=False)
    assert pair.drafter.propose(draft_round([5, 6, 7], policy=refused)) == EMPTY_PROPOSAL
    assert refused.asked == []


@pytest.mark.parametrize(("mode", "has_q"), [("sampled", True), ("argmax", False)])
def test_a_draft_carries_q_only_if_it_was_sampled(
    pair: TinyPair, mode: DraftMode, has_q: bool
) -> None:
    pair.drafter.begin([5, 6, 7])
    sampling = SamplingParams(temperature=1.0, top_k=5)
    proposal = pair.drafter.propose(draft_round([5, 6, 7], sampling=sampling, mode=mode))
    assert proposal.is_sampled is has_q
    for token, q in zip(proposal.tokens, proposal.distributions, strict=True):
        assert q is None or (len(q.ids) == 5 and q.probability(token) > 0.0)
