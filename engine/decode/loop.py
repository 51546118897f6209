"""The round loop: propose, one target pass, accept, commit. Plain decoding is the same loop.

Knows the target's context, a drafter and a controller by their protocols, nothing of methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.control.controller import Controller
from engine.data.errors import EngineError
from engine.data.events import FinishReason, Notice
from engine.data.request import DraftParams
from engine.data.rounds import RoundSeconds, RoundTrace
from engine.decode.trace import cast_ballots, emitted_tokens, proposed_tokens, texts
from engine.drafters.base import Drafter, DraftRound, Observation
from engine.maths.acceptance import Verdict, choose_rule, verify
from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from engine.maths.randomness import DrawStream
from engine.maths.ranking import Ranking, rank
from engine.maths.sampling import Sampler
from engine.text.detokenize import IncrementalText


class TargetContext(Protocol):
    """The part of a context that the loop needs; see engine.llama.context.Context."""

    length_limit: int

    def verify(self, last_token: int, proposal: Proposal) -> NDArray[np.float32]: ...

    def keep_path(self, last_token: int, proposal: Proposal, path: Sequence[int]) -> None: ...

    def hidden_states(self, rows: int) -> NDArray[np.float32]: ...


class ReplyVocabulary(Protocol):
    """What the loop asks about tokens; see engine.llama.vocab.Vocab."""

    def piece(self, token: int) -> bytes: ...

    def ends_generation(self, token: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class Streams:
    """Random streams of the target and of the drafter: never the same object."""

    target: DrawStream
    draft: DrawStream


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """max_tokens of this reply. max_width: widest verify pass allowed, in rows.

    ranked: how many of each row's likeliest tokens the drafter is shown.
    """

    max_tokens: int
    max_width: int
    drafting: DraftParams
    ranked: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round adds to the context. kept: accepted nodes that stay in the KV cache."""

    tokens: tuple[int, ...]
    kept: tuple[int, ...]
    ends: bool


class RoundLoop:
    """One reply. The prompt is in the target's cache but for its last token."""

    def __init__(
        self,
        target: TargetContext,
        drafter: Drafter | None,
        controller: Controller,
        sampler: Sampler,
        streams: Streams,
        options: LoopOptions,
    ) -> None:
        self._target = target
        self._drafter = drafter
        self._controller = controller
        self._sampler = sampler
        self._streams = streams
        self._options = options
        self._notices: list[Notice] = []
        self._round_number = 0
        self._emitted = 0
        self._clock = 0.0
        self.context: list[int] = []
        self.finish: FinishReason = "cancelled"

    def run(
        self,
        prompt: Sequence[int],
        vocabulary: ReplyVocabulary,
        cancelled: Callable[[], bool],
    ) -> Iterator[RoundTrace | Notice]:
        """Rounds until the reply ends; `finish` says why. Closing the iterator early is safe."""
        self.context = list(prompt)
        self._clock = time.perf_counter()
        text = IncrementalText(vocabulary.piece)
        while not cancelled():
            trace, ends = self._round(vocabulary, text)
            yield from self._notices
            self._notices.clear()
            yield trace
            if ends or self._is_full:
                self.finish = "eos" if ends else self._limit_reached
                return

    @property
    def _is_full(self) -> bool:
        """No further token may follow: the last one emitted has no place in the cache."""
        return (
            self._emitted >= self._options.max_tokens
            or len(self.context) > self._target.length_limit
        )

    @property
    def _limit_reached(self) -> FinishReason:
        return "length" if self._emitted >= self._options.max_tokens else "context"

    def _round(self, vocabulary: ReplyVocabulary, text: IncrementalText) -> tuple[RoundTrace, bool]:
        """One propose - verify - commit cycle, and whether it ended the reply."""
        position = len(self.context)
        last_token = self.context[-1]
        started = time.perf_counter()
        proposal = self._propose().ended_at(vocabulary.ends_generation)
        drafted = time.perf_counter()
        logits = self._target.verify(last_token, proposal)
        passed = time.perf_counter()
        targets = self._distributions(logits, proposal)
        verdict = self._accept(proposal, targets)
        features = self._features(len(proposal), verdict.path)
        rankings = self._rankings((last_token, *proposal.tokens), logits)
        room = self._options.max_tokens - self._emitted
        outcome = _cut(proposal, verdict, vocabulary.ends_generation, room)
        self._target.keep_path(last_token, proposal, outcome.kept)
        self.context.extend(outcome.tokens)
        self._emitted += len(outcome.tokens)
        on_path = (targets[0], *(targets[1 + node] for node in verdict.path))
        self._observe(
            Observation(proposal, verdict.path, outcome.tokens, features, on_path, rankings)
        )
        words = texts(outcome.tokens, text, is_last=outcome.ends or self._is_full)
        self._round_number += 1
        proposed = proposed_tokens(proposal, verdict, targets, text)
        emitted = emitted_tokens(proposal, verdict, targets, outcome.tokens, words)
        trace = RoundTrace(
            round=self._round_number,
            position=position,
            proposed=proposed,
            emitted=emitted,
            seconds=self._seconds(drafted - started, passed - drafted),
            parked=self._controller.parked and not proposed,
            ballots=cast_ballots(proposal, verdict, targets, text),
        )
        self._controller.finish_round(trace)
        return trace, outcome.ends

    def _seconds(self, draft: float, target: float) -> RoundSeconds:
        """From the end of the last round, so that what the consumer takes counts as "other"."""
        total = time.perf_counter() - self._clock
        self._clock += total
        return RoundSeconds(draft, target, total - draft - target)

    def _propose(self) -> Proposal:
        """A proposal no deeper and no larger than anything allows."""
        nodes = min(self._options.max_width - 1, self._target.length_limit - len(self.context))
        depth = min(
            self._controller.start_round(),
            self._options.drafting.longest_draft,
            self._options.max_tokens - self._emitted - 1,
            nodes,
        )
        if self._drafter is None or depth < 1:
            return EMPTY_PROPOSAL
        round_ = DraftRound(
            context=self.context,
            max_depth=depth,
            sampler=self._sampler,
            mode=self._options.drafting.mode,
            stream=self._streams.draft,
            policy=self._controller.of(self._drafter.name),
            max_nodes=nodes,
            report=self._notify,
        )
        try:
            return self._drafter.propose(round_).pruned(depth).first_nodes(nodes)
        except EngineError as error:
            self._drop_drafter(error)
            return EMPTY_PROPOSAL

    def _features(self, nodes: int, path: Sequence[int]) -> NDArray[np.float32] | None:
        """Hidden states of the last token and the path, copied: the next pass overwrites them."""
        if self._drafter is None or self._drafter.needs != "final hidden state":
            return None
        return self._target.hidden_states(1 + nodes)[[0, *(1 + node for node in path)]]

    def _rankings(self, tokens: Sequence[int], logits: NDArray[np.float32]) -> tuple[Ranking, ...]:
        """Of every row of the pass, kept or not, while its logits are there."""
        count = self._options.ranked if self._drafter is not None else 0
        if not count:
            return ()
        return tuple(rank(token, row, count) for token, row in zip(tokens, logits, strict=True))

    def _observe(self, observation: Observation) -> None:
        if self._drafter is None:
            return
        try:
            self._drafter.observe(observation)
        except EngineError as error:
            self._drop_drafter(error)

    def _drop_drafter(self, error: EngineError) -> None:
        """A failing drafter costs the reply nothing but speed: it goes on, plain."""
        name = self._drafter.name if self._drafter is not None else "?"
        self._drafter = None
        self._notify(f"the drafter {name} failed and was dropped for this reply: {error}")

    def _notify(self, message: str) -> None:
        self._notices.append(Notice(message))

    def _distributions(self, logits: NDArray[np.float32], proposal: Proposal) -> list[Distribution]:
        """p after the last token and after every node, each on its own prefix."""
        recent = list(self._sampler.recent(self.context))
        targets = [self._sampler.distribution(logits[0], recent)]
        prefixes: list[list[int]] = []
        for node, parent in enumerate(proposal.parents):
            before = recent if parent == ROOT else prefixes[parent]
            prefixes.append([*before, proposal.tokens[node]])
            targets.append(self._sampler.distribution(logits[1 + node], prefixes[node]))
        return targets

    def _accept(self, proposal: Proposal, targets: Sequence[Distribution]) -> Verdict:
        drafting = self._options.drafting
        rule = choose_rule(proposal, drafting.coupling, drafting.acceptance)
        return verify(proposal, targets, len(self.context), rule, self._streams.target)


def _cut(
    proposal: Proposal,
    verdict: Verdict,
    ends_generation: Callable[[int], bool],
    room: int,
) -> Outcome:
    """The tokens up to the end of the reply; the last one emitted is never cached."""
    tokens = [*(proposal.tokens[node] for node in verdict.path), verdict.token][:room]
    ends = False
    for index, token in enumerate(tokens):
        if ends_generation(token):
            tokens = tokens[: index + 1]
            ends = True
            break
    return Outcome(tuple(tokens), verdict.path[: len(tokens) - 1], ends)
