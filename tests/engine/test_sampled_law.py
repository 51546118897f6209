"""The law of the first two tokens, with and without speculation, on the starter's own p and q.

Every row of logits that a draw can need is computed once and kept by prefix, so thousands of
draws take seconds. With a test at 0.1 % and a power of 90 %, a G-test over at most 64 cells
detects any law of total variation sqrt(50 / (4 n)) or more from the target's (the noncentrality
needed is at most 50, and n sum(d^2 / p) >= 4 n TV^2): 0.1 for the 1,200 draws of the default
run, 0.025 for the 20,000 of the slow one. The last test shows that it does detect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.data.request import SamplingParams
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.derived import skipped_copy
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.maths.acceptance import Rule, choose_rule, verify
from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from engine.maths.randomness import CoupledStream, DrawStream, IndependentStream
from engine.maths.sampling import Sampler
from tests.engine.conftest import THREADS
from tests.engine.g_test import Pair, p_value

pytestmark = pytest.mark.model

PROMPT = "My favourite animal is the"
SAMPLING = SamplingParams(temperature=1.2, top_k=8, repeat_penalty=1.1)
SKIP = (12, 16)
SIGNIFICANCE = 0.001
Draw = Callable[[int], Pair]


class Rows:
    """p or q after the prompt and up to two more tokens, each computed once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        vocab = context.model.vocab
        self._prompt = vocab.tokenize(PROMPT, add_special=True, parse_special=False)
        self._known: dict[tuple[int, ...], Distribution] = {}
        self._sampler = Sampler(SAMPLING)

    def after(self, *tokens: int) -> Distribution:
        if tokens not in self._known:
            text = [*self._prompt, *tokens]
            self._context.reuse(text[:-1])
            row = self._context.extend_to_last(text[len(self._context.tokens) :])
            self._known[tokens] = self._sampler.distribution(row, text)
        return self._known[tokens]


class Laws:
    """Draws of two tokens by each way of drafting. p, q: rows of target and drafter."""

    def __init__(self, p: Rows, q: Rows) -> None:
        self.p, self.q = p, q
        self.streams: tuple[DrawStream, DrawStream] = (
            IndependentStream(11, "target"),
            IndependentStream(11, "draft"),
        )

    def expected(self) -> dict[Pair, float]:
        first = self.p.after()
        law: dict[Pair, float] = {}
        for token, chance in zip(first.ids.tolist(), first.probabilities.tolist(), strict=True):
            second = self.p.after(token)
            for other, then in zip(second.ids.tolist(), second.probabilities, strict=True):
                law[token, other] = chance * float(then)
        return law

    def finish(self, proposal: Proposal, rule: Rule) -> Pair:
        """One verified round, continued by plain rounds until there are two tokens."""
        stream = self.streams[0]
        targets = _NodeRows(self.p, proposal)
        verdict = verify(proposal, targets, 0, rule, stream)  # type: ignore[arg-type]  # takes no slices
        emitted = [*(proposal.tokens[node] for node in verdict.path), verdict.token]
        while len(emitted) < 2:
            emitted.append(stream.draw(self.p.after(*emitted), len(emitted)))
        return emitted[0], emitted[1]

    def plain(self, _number: int) -> Pair:
        return self.finish(EMPTY_PROPOSAL, "point-mass")

    def one(self, _number: int) -> Pair:
        return self.finish(self._sampled(1), "ratio")

    def chain(self, _number: int) -> Pair:
        return self.finish(self._sampled(2), "block")

    def argmax(self, _number: int) -> Pair:
        first = self.q.after().most_likely()
        tokens = [first, self.q.after(first).most_likely()]
        proposal = Proposal.chain(tokens, "early-exit")
        return self.finish(proposal, choose_rule(proposal, "best"))

    def siblings(self, _number: int) -> Pair:
        """Two different candidates for the first token, one for the second below each."""
        q, stream = self.q.after(), self.streams[1]
        first = stream.draw(q, 0)
        kept = q.ids != first
        left = Distribution(q.ids[kept], q.probabilities[kept] / q.probabilities[kept].sum())
        second = stream.draw(left, 0)
        below = [self.q.after(token) for token in (first, second)]
        tokens = (first, second, *(stream.draw(law, 1) for law in below))
        proposal = Proposal(tokens, (ROOT, ROOT, 0, 1), ("e",) * 4, (q, q, *below))
        return self.finish(proposal, "multi-candidate")

    def seeded(self, number: int) -> Pair:
        """Another seed for every draw, as users have it."""
        self.streams = (CoupledStream(number), CoupledStream(number))
        proposal = self._sampled(2)
        return self.finish(proposal, choose_rule(proposal, "seed"))

    def wrong(self, _number: int) -> Pair:
        """What a broken rule would do one time in three: keep a draft that p allows untested."""
        proposal = self._sampled(2)
        pair = proposal.tokens[0], proposal.tokens[1]
        possible = self.p.after().probability(pair[0]) > 0.0
        if possible and self.p.after(pair[0]).probability(pair[1]) > 0.0:
            if self.streams[0].accept(1 / 3):
                return pair
        return self.finish(proposal, "block")

    def _sampled(self, length: int) -> Proposal:
        tokens: list[int] = []
        laws: list[Distribution] = []
        for depth in range(length):
            laws.append(self.q.after(*tokens))
            tokens.append(self.streams[1].draw(laws[-1], depth))
        return Proposal.chain(tokens, "early-exit", laws)


class _NodeRows:
    """p at the root and after each node; rows past the second token are never looked at."""

    def __init__(self, p: Rows, proposal: Proposal) -> None:
        self._p, self._proposal = p, proposal

    def __len__(self) -> int:
        return len(self._proposal) + 1

    def __getitem__(self, index: int) -> Distribution:
        path = self._proposal.path(index - 1)
        tokens = [self._proposal.tokens[node] for node in path]
        # The third token is drawn but does not count; any distribution will do.
        return self._p.after(*tokens) if len(tokens) < 2 else self._p.after()


@pytest.fixture(scope="module")
def rows(
    starter: Model, library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Rows, Rows]]:
    options = ContextOptions(64, 1, THREADS)
    folder: Path = tmp_path_factory.mktemp("derived")
    copy = skipped_copy(starter.path, starter.layers, SKIP, folder, library.log, lambda _: None)
    with (
        Model(copy, ModelOptions(), library.log) as drafter,
        Context(starter, options, AbortFlag()) as target_context,
        Context(drafter, options, AbortFlag()) as drafter_context,
    ):
        yield Rows(target_context), Rows(drafter_context)


@pytest.fixture
def laws(rows: tuple[Rows, Rows]) -> Laws:
    return Laws(*rows)


def test_target_and_drafter_disagree_enough(laws: Laws) -> None:
    p, q = laws.p.after(), laws.q.after()
    overlap = sum(min(p.probability(t), q.probability(t)) for t in {*p.ids, *q.ids})
    assert 0.2 < overlap < 0.9


WAYS = ("plain", "one", "chain", "argmax", "siblings", "seeded")


def check(laws: Laws, way: str, draws: int) -> float:
    draw: Draw = getattr(laws, way)
    counts = Counter(draw(number) for number in range(draws))
    return p_value(counts, laws.expected(), draws)


@pytest.mark.parametrize("way", WAYS)
def test_two_tokens_follow_the_targets_law(laws: Laws, way: str) -> None:
    """1,200 draws: detects a total variation of 0.1."""
    assert check(laws, way, 1_200) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_two_tokens_follow_the_targets_law_closely(laws: Laws, way: str) -> None:
    """20,000 draws: detects a total variation of 0.025."""
    assert check(laws, way, 20_000) > SIGNIFICANCE


def test_a_wrong_law_is_detected(laws: Laws) -> None:
    assert check(laws, "wrong", 4_000) < SIGNIFICANCE
