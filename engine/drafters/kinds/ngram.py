"""Copies what followed the longest match of the chat's last tokens, here or in earlier texts.

Model-free, a point mass per token. Prompt lookup (Saxena 2023) by a suffix automaton, with drafts
as long as the evidence carries them (cf. SuffixDecoding, arXiv 2411.04975).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.drafters.base import DraftRound, Observation, TargetNeeds
from engine.drafters.copying.earlier import EarlierTexts
from engine.drafters.copying.evidence import Continuation, CopyConfidence, CopyCursor, Evidence
from engine.drafters.copying.suffix_index import SuffixIndex
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterKind, DrafterPlan, PlanContext
from engine.drafters.stepping import draft_chain
from engine.maths.distribution import Distribution
from engine.maths.proposal import MemberPrediction, Proposal

MINIMUM_MATCH = 3
"""Shorter matches say little about what follows: the drafter abstains."""

LOWEST_PROBABILITY = 0.1
"""Of a whole draft being right, as in SuffixDecoding: it ends before it gets less likely."""


@dataclass(slots=True)
class _Source:
    """A text to copy from: its record, and where this draft is in it."""

    confidence: CopyConfidence
    cursor: CopyCursor | None = None


@dataclass(frozen=True, slots=True)
class _Tried:
    """A token that this draft would have copied, used or not."""

    source: _Source
    token: int
    evidence: Evidence


class NgramDrafter:
    """One index per chat, rebuilt when the chat is not a continuation of what it holds."""

    name = "ngram"
    needs: TargetNeeds = "nothing"
    max_leaves = 1

    def __init__(self, earlier: EarlierTexts | None = None) -> None:
        self._index = SuffixIndex(MINIMUM_MATCH)
        self._earlier = earlier
        self._chat = _Source(CopyConfidence())
        self._others = _Source(CopyConfidence())
        self._source: _Source | None = None  # of this draft
        self._next: Sequence[Continuation] = ()
        self._draft_probability = 1.0  # of the whole draft so far
        self._path: tuple[int, ...] = ()  # of this draft
        self._round: DraftRound | None = None
        self._tried: list[_Tried] = []

    @property
    def description(self) -> str:
        return "copies what followed the same words earlier in this chat"

    @property
    def memory_bytes(self) -> int:
        return self._earlier.bytes if self._earlier is not None else 0

    def begin(self, prompt: Sequence[int]) -> None:
        self._index.follow(prompt)
        self._tried = []
        for source in (self._chat, self._others):
            source.confidence.begin_text()

    def propose(self, round_: DraftRound) -> Proposal:
        return draft_chain(self, round_)

    def observe(self, observation: Observation) -> None:
        """Learns once from each draft, whether its tokens were used or another drafter's, and the
        token at which it ended too."""
        if self._source is not None and self._next:
            last = self._next[0]
            self._tried.append(_Tried(self._source, last.token, last.evidence))
        self._source, self._next = None, ()
        for tried, emitted in zip(self._tried, observation.emitted, strict=False):
            tried.source.confidence.learn(tried.evidence, kept=tried.token == emitted)
            if tried.token != emitted:
                break
        self._tried = []

    def close(self) -> None:
        self._index = SuffixIndex(MINIMUM_MATCH)

    # Step by step

    def start(self, round_: DraftRound) -> bool:
        """The draft stays with the source that is surer of its first token."""
        self._index.extend(round_.context)
        self._tried = []
        self._draft_probability = 1.0
        self._path, self._round = (), round_
        self._chat.cursor = self._index.cursor()
        self._others.cursor = None
        if self._earlier is not None:
            self._others.cursor = self._earlier.cursor(round_.context)
        self._source, self._next, best = None, (), 0.0
        for source in (self._chat, self._others):
            found = source.cursor.continuations() if source.cursor is not None else ()
            probability = source.confidence.estimate(found[0].evidence) if found else 0.0
            if probability > best:
                self._source, self._next, best = source, found, probability
        return self._source is not None

    def peek(self) -> float | None:
        if self._source is None or not self._next:
            return None
        probability = self._source.confidence.estimate(self._next[0].evidence)
        return probability if self._draft_probability * probability >= LOWEST_PROBABILITY else None

    def distribution(self) -> Distribution:
        self._note(self._next[:1])
        return Distribution.point_mass(self._next[0].token)

    def advance(self, token: int) -> None:
        source = self._source
        if source is None or source.cursor is None or not self._next:
            return
        likely = self._next[0]
        self._tried.append(_Tried(source, likely.token, likely.evidence))
        self._draft_probability *= source.confidence.estimate(likely.evidence)
        self._path = (*self._path, token)
        source.cursor.advance(token)
        self._next = source.cursor.continuations()

    def alternatives(self, count: int) -> Sequence[tuple[int, float]]:
        source = self._source
        if source is None:
            return ()
        self._note(self._next[:count])
        return [(one.token, source.confidence.estimate(one.evidence)) for one in self._next[:count]]

    def _note(self, offered: Sequence[Continuation]) -> None:
        if self._round is None or self._source is None or self._source.cursor is None:
            return
        for one in offered:
            source = self._source.cursor.source(one)
            self._round.copied(self.name, (*self._path, one.token), source)

    def predictions(self) -> Sequence[MemberPrediction]:
        return ()


class Ngram(DrafterKind):
    name = "ngram"
    usage = "ngram"
    label = "n-gram lookup"
    description = "Repeats what followed the same words earlier in this chat. Needs no memory"
    tuning = ()
    needs_no_file = True

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        return DrafterPlan(expression, lambda build: NgramDrafter(build.earlier), copies=True)
