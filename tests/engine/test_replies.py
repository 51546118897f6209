"""Replies of the starter with scripted drafters, itself and early exit, against plain ones.

Strict numerics: the target's context is set up as a strict load does, so texts must be equal
byte for byte. The texts come from greedy decoding and from draws coupled to a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.control.controller import AlwaysDraft, NeverDraft
from engine.data.events import Finished
from engine.data.request import DraftParams, GenerateRequest, SamplingParams
from engine.data.rounds import RoundTrace
from engine.decode.loop import DraftSetup
from engine.drafters.base import Drafter
from engine.drafters.build_context import BuildContext
from engine.drafters.parse import parse_expression
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model
from engine.measure.exact_widths import try_widths
from engine.serving.reply import Reply
from tests.engine import scripted
from tests.engine.conftest import THREADS
from tests.engine.open_drafter import build_drafter
from tests.engine.scripted import ScriptedDrafter

pytestmark = pytest.mark.model

LIST = "Write the numbers: one, two, three, one, two, three, one, two, three, one,"
STORY = "The old lighthouse keeper climbed the stairs and"
TOKENS = 20
DRAFT_MAX = 6
NAMES = ("early-exit", "itself", "wrong", "alternating", "tree", "empty")


class Replies:
    """Reuses one strict context of the target and one instance of each drafter."""

    def __init__(self, target: Model, context: Context, width: int, drafters: dict[str, Drafter]):
        self.context = context
        self.width = width
        self.drafters = drafters
        self._target = target
        self._plain: dict[tuple[str, SamplingParams], Finished] = {}

    def tokens(self, text: str) -> list[int]:
        return self._target.vocab.tokenize(text, add_special=True, parse_special=False)

    def run(
        self, text: str, sampling: SamplingParams, drafter: Drafter | None
    ) -> tuple[Finished, list[RoundTrace]]:
        self.context.clear()
        drafting = DraftParams("always" if drafter else "off", DRAFT_MAX, coupling="seed")
        controller = AlwaysDraft(DRAFT_MAX) if drafter else NeverDraft()
        setup = DraftSetup(drafter, controller, self.width)
        request = GenerateRequest(
            raw_prompt=text, max_tokens=TOKENS, sampling=sampling, drafting=drafting
        )
        reply = Reply(self.context, setup, request, self.tokens(text), sampling.seed or 0)
        for _ in reply.prefill(lambda: False):
            pass
        rounds = [e for e in reply.rounds(lambda: False) if isinstance(e, RoundTrace)]
        finished = reply.finished()
        assert self.context.tokens == reply.context_tokens[:-1]
        return finished, rounds

    def plain(self, text: str, sampling: SamplingParams) -> Finished:
        key = (text, sampling)
        if key not in self._plain:
            self._plain[key] = self.run(text, sampling, None)[0]
        return self._plain[key]

    def drafter(self, name: str, text: str, sampling: SamplingParams) -> Drafter:
        known = self.drafters.get(name)
        if known is not None:
            return known
        prompt, reply = self.tokens(text), self.plain(text, sampling).tokens

        def oracle(context: Sequence[int], count: int) -> list[int]:
            start = len(context) - len(prompt)
            return list(reply[start : start + count])

        vocabulary = self._target.vocab.size
        scripts = {
            "wrong": scripted.wrong(oracle, vocabulary),
            "alternating": scripted.alternating(oracle, vocabulary),
            "tree": scripted.tree(oracle, vocabulary),
            "empty": scripted.empty,
        }
        return ScriptedDrafter(scripts[name])


@pytest.fixture(scope="module")
def replies(
    starter: Model, starter_path: Path, library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replies]:
    build = BuildContext(
        target=starter,
        context_length=256,
        threads=THREADS,
        gpu_layers=0,
        abort=AbortFlag(),
        log=library.log,
        derived_folder=tmp_path_factory.mktemp("derived"),
        report=lambda label, fraction: None,
    )
    trial = try_widths(starter, THREADS, AbortFlag(), flash_attention=True)
    exact = max((one.widths for one in trial.classes if one.branches), key=lambda one: one.widest)
    exact = exact.up_to(1 + DRAFT_MAX)
    options = ContextOptions(256, 65, THREADS, max_leaves=16, flash_attention=True, exact=exact)
    early = build_drafter(parse_expression("early-exit:skip=12+16"), build)
    itself = build_drafter(parse_expression(f"model:{starter_path}"), build)
    drafters: dict[str, Drafter] = {"early-exit": early, "itself": itself}
    with Context(starter, options, AbortFlag()) as context:
        yield Replies(starter, context, exact.widest, drafters)
    itself.close()
    early.close()


@pytest.mark.parametrize("name", NAMES)
def test_greedy_text_is_the_plain_text(replies: Replies, name: str) -> None:
    text, sampling = STORY, SamplingParams()
    plain = replies.plain(text, sampling)
    finished, rounds = replies.run(text, sampling, replies.drafter(name, text, sampling))
    assert finished.text.encode() == plain.text.encode()
    assert finished.tokens == plain.tokens and finished.finish == plain.finish
    stats = finished.stats
    assert stats.emitted == len(finished.tokens) == sum(len(t.emitted) for t in rounds)
    if name == "itself" and replies.width > 1:
        assert stats.acceptance_rate == 1.0 and stats.rounds < TOKENS
    if name == "wrong":
        assert stats.accepted == 0 and stats.rounds == stats.emitted
    if name in ("tree", "alternating") and replies.width > 2:
        assert 0.0 < (stats.acceptance_rate or 0.0)


def test_something_is_rejected_and_something_accepted(replies: Replies) -> None:
    """Otherwise the comparison above would say little about the early-exit drafter."""
    sampling = SamplingParams()
    finished, _ = replies.run(STORY, sampling, replies.drafters["early-exit"])
    assert 0 < finished.stats.accepted < finished.stats.proposed


def test_a_seed_gives_the_same_text_with_penalties(replies: Replies) -> None:
    """Penalties read the hypothetical prefix of every drafted token."""
    sampling = SamplingParams(
        temperature=0.8, repeat_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.2, seed=4
    )
    plain = replies.plain(LIST, sampling)
    unpenalised = replies.plain(LIST, SamplingParams(temperature=0.8, seed=4))
    assert plain.text != unpenalised.text
    finished, _ = replies.run(LIST, sampling, replies.drafters["early-exit"])
    assert finished.text.encode() == plain.text.encode()


def test_other_seeds_give_other_texts(replies: Replies) -> None:
    texts = {
        replies.plain(STORY, SamplingParams(temperature=1.0, seed=seed)).text for seed in (1, 2, 3)
    }
    assert len(texts) == 3


def test_fast_numerics_differ_at_near_ties_only(replies: Replies, starter: Model) -> None:
    """Wide passes may round otherwise; then the two best tokens must have been close."""
    sampling = SamplingParams()
    plain = replies.plain(STORY, sampling).tokens
    options = ContextOptions(256, 65, THREADS)
    with Context(starter, options, AbortFlag()) as context:
        fast = Replies(starter, context, 65, replies.drafters)
        tokens = fast.run(STORY, sampling, replies.drafters["early-exit"])[0].tokens
        difference = next((i for i in range(TOKENS) if tokens[i] != plain[i]), None)
        if difference is not None:
            context.clear()
            row = context.extend_to_last([*fast.tokens(STORY), *plain[:difference]])
            best = np.sort(row)[-2:]
            assert float(best[1] - best[0]) < 1.0
        assert len(tokens) == len(plain)
