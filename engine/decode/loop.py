"""The round loop: propose, one target pass, accept, commit. Plain decoding is the same loop.

Knows the target's context, a drafter and a controller by their protocols, nothing of methods.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.control.auto_draft import AutoDraft
from engine.control.controller import Controller
from engine.data.errors import EngineError
from engine.data.events import FinishReason, Notice
from engine.data.request import GenerateRequest
from engine.data.rounds import CopySource, RoundTrace
from engine.decode.clock import RoundClock
from engine.decode.round import Round, cut_at_end
from engine.decode.trace import trace_of
from engine.drafters.base import Drafter, DraftRound, Observation
from engine.maths.acceptance import Verdict, choose_rule, verify
from engine.maths.distribution import Distribution
from engine.maths.proposal import EMPTY_PROPOSAL, ROOT, Proposal
from engine.maths.randomness import DrawStream
from engine.maths.ranking import Ranking, rank
from engine.maths.sampling import Sampler
from engine.text.detokenize import IncrementalText

_ENDLESS = 2**31


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


class Steering(Protocol):
    """Gives a reply tokens that are not drawn; see engine.serving.thought_limit.ThoughtLimit."""

    @property
    def room(self) -> int: ...

    def forced(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Streams:
    """Random streams of the target and of the drafter: never the same object."""

    target: DrawStream
    draft: DrawStream


@dataclass(frozen=True, slots=True)
class DraftSetup:
    """How a reply is drafted. max_width: widest verify pass allowed, in rows.

    ranked: how many of each row's likeliest tokens the drafter is shown. costs: what passes take,
    None where it was not measured.
    """

    drafter: Drafter | None
    controller: Controller
    max_width: int
    ranked: int = 0
    costs: AutoDraft | None = None


class RoundLoop:
    """One reply. The prompt is in the target's cache but for its last token."""

    def __init__(
        self,
        target: TargetContext,
        setup: DraftSetup,
        request: GenerateRequest,
        streams: Streams,
        steering: Steering | None = None,
    ) -> None:
        self._target = target
        self._setup = setup
        self._controller = setup.controller
        self._drafter = setup.drafter
        self._request = request
        self._sampler = Sampler(request.sampling)
        self._streams = streams
        self._steering = steering
        self._notices: list[Notice] = []
        self._sources: dict[tuple[str, tuple[int, ...]], CopySource] = {}
        self._clock = RoundClock()
        self._emitted = 0
        self.context: list[int] = []
        self.finish: FinishReason = "cancelled"

    def run(
        self,
        context: list[int],
        vocabulary: ReplyVocabulary,
        cancelled: Callable[[], bool],
    ) -> Generator[RoundTrace | Notice, None, None]:
        """Rounds until the reply ends; `finish` says why. Closing the iterator early is safe.

        context: the prompt; the reply's tokens are added to it.
        """
        self.context = context
        self._clock = RoundClock()
        text = IncrementalText(vocabulary.piece)
        for begun in self._request.continuation:
            text.push(begun)
        if self._request.continuation and vocabulary.ends_generation(context[-1]):
            self.finish = "eos"
            return
        number = 0
        while not cancelled():
            number += 1
            token = self._steering.forced() if self._steering is not None else None
            if token is None:
                round_ = self._round(vocabulary.ends_generation)
            else:
                round_ = self._forced_round(token)
            is_last = round_.ends or self._is_full
            parked = self._controller.parked
            trace = trace_of(round_, number, text, is_last=is_last, parked=parked)
            self._controller.finish_round(trace)
            yield from self._notices
            self._notices.clear()
            yield trace
            if is_last:
                self.finish = "eos" if round_.ends else self._limit_reached
                return

    def _round(self, ends_generation: Callable[[int], bool]) -> Round:
        """Propose, verify, accept, cut, keep, observe."""
        position, last_token = len(self.context), self.context[-1]
        self._sources = {}
        with self._clock.measuring("draft"):
            proposal = self._propose().ended_at(ends_generation)
        with self._clock.measuring("target"):
            logits = self._target.verify(last_token, proposal)
        targets = self._distributions(logits, proposal)
        verdict = self._accept(proposal, targets)
        tokens, ends = cut_at_end(proposal, verdict, ends_generation, self._round_room)
        self._commit(proposal, verdict, tokens, targets, logits)
        seconds = self._clock.finish_round()
        return Round(position, proposal, verdict, targets, tokens, ends, seconds, self._sources)

    def _forced_round(self, token: int) -> Round:
        """The pass of a plain round, of which nothing is drawn: the caches are as ever."""
        position = len(self.context)
        self._controller.start_round()
        with self._clock.measuring("target"):
            logits = self._target.verify(self.context[-1], EMPTY_PROPOSAL)
        targets = self._distributions(logits, EMPTY_PROPOSAL)
        verdict = Verdict((), token, "plain")
        self._commit(EMPTY_PROPOSAL, verdict, (token,), targets, logits)
        seconds = self._clock.finish_round()
        return Round(
            position, EMPTY_PROPOSAL, verdict, targets, (token,), False, seconds, forced=True
        )

    def _commit(
        self,
        proposal: Proposal,
        verdict: Verdict,
        tokens: tuple[int, ...],
        targets: Sequence[Distribution],
        logits: NDArray[np.float32],
    ) -> None:
        """Cuts the caches, keeps the tokens, and lets the drafter see it."""
        observation = self._observation(proposal, verdict, tokens, targets, logits)
        # The last token is never cached: the next pass begins with it.
        self._target.keep_path(self.context[-1], proposal, verdict.path[: len(tokens) - 1])
        self.context.extend(tokens)
        self._emitted += len(tokens)
        self._observe(observation)

    @property
    def _round_room(self) -> int:
        """Tokens that this round may add."""
        return self._room if self._steering is None else min(self._room, self._steering.room)

    @property
    def _room(self) -> int:
        """Tokens that the reply may still have; how full the context is counts apart."""
        return self._request.longest_reply(_ENDLESS) - self._emitted

    @property
    def _is_full(self) -> bool:
        """No further token may follow: the last one emitted has no place in the cache."""
        return self._room <= 0 or len(self.context) > self._target.length_limit

    @property
    def _limit_reached(self) -> FinishReason:
        return "length" if self._room <= 0 else "context"

    def _propose(self) -> Proposal:
        """A proposal no deeper and no larger than anything allows."""
        nodes = min(self._setup.max_width - 1, self._target.length_limit - len(self.context))
        depth = min(
            self._controller.start_round(),
            self._request.drafting.longest_draft,
            self._round_room - 1,
            nodes,
        )
        if self._drafter is None or depth < 1:
            return EMPTY_PROPOSAL
        round_ = DraftRound(
            context=self.context,
            max_depth=depth,
            sampler=self._sampler,
            mode=self._request.drafting.mode,
            stream=self._streams.draft,
            policy=self._controller.of(self._drafter.name),
            max_nodes=nodes,
            report=self._notify,
            copied=self._copied,
        )
        try:
            return self._drafter.propose(round_).pruned(depth).first_nodes(nodes)
        except EngineError as error:
            self._drop_drafter(error)
            return EMPTY_PROPOSAL

    def _distributions(
        self, logits: NDArray[np.float32], proposal: Proposal
    ) -> tuple[Distribution, ...]:
        """p after the last token and after every node, each on its own prefix."""
        recent = list(self._sampler.recent(self.context))
        targets = [self._sampler.distribution(logits[0], recent)]
        prefixes: list[list[int]] = []
        for node, parent in enumerate(proposal.parents):
            before = recent if parent == ROOT else prefixes[parent]
            prefixes.append([*before, proposal.tokens[node]])
            targets.append(self._sampler.distribution(logits[1 + node], prefixes[node]))
        return tuple(targets)

    def _accept(self, proposal: Proposal, targets: Sequence[Distribution]) -> Verdict:
        drafting = self._request.drafting
        rule = choose_rule(proposal, drafting.coupling, drafting.acceptance)
        return verify(proposal, targets, len(self.context), rule, self._streams.target)

    def _observation(
        self,
        proposal: Proposal,
        verdict: Verdict,
        tokens: tuple[int, ...],
        targets: Sequence[Distribution],
        logits: NDArray[np.float32],
    ) -> Observation:
        """Taken before the caches are cut: the next pass overwrites logits and hidden states."""
        on_path = (targets[0], *(targets[1 + node] for node in verdict.path))
        return Observation(
            proposal,
            verdict.path,
            tokens,
            self._features(len(proposal), verdict.path),
            on_path,
            self._rankings((self.context[-1], *proposal.tokens), logits),
        )

    def _features(self, nodes: int, path: Sequence[int]) -> NDArray[np.float32] | None:
        """Hidden states of the last token and the path, copied."""
        if self._drafter is None or self._drafter.needs != "final hidden state":
            return None
        return self._target.hidden_states(1 + nodes)[[0, *(1 + node for node in path)]]

    def _rankings(self, tokens: Sequence[int], logits: NDArray[np.float32]) -> tuple[Ranking, ...]:
        """Of every row of the pass, kept or not."""
        count = self._setup.ranked if self._drafter is not None else 0
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

    def _copied(self, drafter: str, path: tuple[int, ...], source: CopySource) -> None:
        self._sources[drafter, path] = source

    def _notify(self, message: str) -> None:
        self._notices.append(Notice(message))
