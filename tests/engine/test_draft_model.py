"""A draft model whose vocabulary is shorter than the target's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.data.errors import DrafterError
from engine.data.request import DraftMode, SamplingParams
from engine.drafters.models.drafter import ModelDrafter, SameTokens
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.proposal import EMPTY_PROPOSAL
from engine.models.pair import require_pair
from tests.engine.draft_rounds import AskedPolicy, draft_round
from tests.tiny_gguf import write_tiny_gguf


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
