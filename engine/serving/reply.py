"""One reply: prefill what is new, run rounds, sum up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from engine.data.errors import EngineError
from engine.data.events import Finished, Notice, PromptProgress, Retold, RetoldToken, RunEvent
from engine.data.request import Coupling, GenerateRequest
from engine.data.rounds import RoundTrace
from engine.data.stats import StatsCounter
from engine.decode.loop import DraftSetup, RoundLoop, Steering, Streams
from engine.drafters.base import Preparing
from engine.llama.abort import PassAborted
from engine.llama.context import Context
from engine.llama.native_context import PREFILL_CHUNK
from engine.maths.randomness import CoupledStream, IndependentStream
from engine.serving.thoughts import ReplyThoughts
from engine.text.detokenize import IncrementalText


class Reply:
    """context_tokens: the prompt, then also the reply; what the KV caches stand for afterwards, but
    for the last token. thoughts: None where none can be told from the answer."""

    def __init__(
        self,
        context: Context,
        setup: DraftSetup,
        request: GenerateRequest,
        prompt: Sequence[int],
        seed: int,
        thoughts: ReplyThoughts | None = None,
    ) -> None:
        self.context_tokens = list(prompt)
        self._context = context
        self._setup = setup
        self._request = request
        self._prompt_length = len(prompt)
        self._retold = not request.continuation
        self._seed = seed
        self._reused = 0
        self._thoughts = thoughts
        self._reading = 0.0
        self._texts: list[str] = []
        self._prefill_seconds = 0.0
        self._counter = StatsCounter()
        self._loop: RoundLoop | None = None

    def prefill(self, cancelled: Callable[[], bool]) -> Iterator[RunEvent]:
        """Brings target and drafter to the prompt; its last token belongs to the first round."""
        started = time.perf_counter()
        context = self._context
        wanted = self.context_tokens[:-1]
        if not self._request.reuse:
            context.clear()
        self._reused = context.reuse(wanted, begun=len(self._request.continuation))
        vocabulary = context.model.vocabulary_identity
        yield PromptProgress(self._reused, len(wanted), self._reused, vocabulary)
        for start in range(self._reused, len(wanted), PREFILL_CHUNK):
            if cancelled():
                return
            context.feed(wanted[start : start + PREFILL_CHUNK])
            yield PromptProgress(len(context.tokens), len(wanted), self._reused)
        if cancelled():
            return
        drafter = self._setup.drafter
        if drafter is not None and self._request.drafting.speculate != "off":
            began = time.perf_counter()
            try:
                drafter.begin(self.context_tokens)
                if isinstance(drafter, Preparing) and not cancelled():
                    drafter.prepare(self._setup.controller.of(drafter.name))
            except EngineError as error:
                yield Notice(f"the drafter {drafter.name} cannot follow this chat: {error}")
                self._setup = replace(self._setup, drafter=None)
            self._reading = time.perf_counter() - began
        self._prefill_seconds = time.perf_counter() - started

    def rounds(
        self, cancelled: Callable[[], bool], steering: Steering | None = None
    ) -> Iterator[RunEvent]:
        """Round traces and notices until the reply ends."""
        start = len(self._request.continuation)
        streams = _streams(self._seed, self._request.drafting.coupling, start)
        loop = self._loop = RoundLoop(self._context, self._setup, self._request, streams, steering)
        self._counter = StatsCounter(self._prefill_seconds)
        vocabulary = self._context.model.vocab
        try:
            for event in loop.run(self.context_tokens, vocabulary, cancelled):
                if isinstance(event, RoundTrace):
                    self._counter.add(event)
                    thoughts, trace = self._thoughts, self._compared(event)
                    yield from self._told([trace] if thoughts is None else thoughts.take(trace))
                else:
                    yield event
        except PassAborted:
            yield from self._held_back()
            raise
        yield from self._held_back()

    def _compared(self, trace: RoundTrace) -> RoundTrace:
        """With what plain decoding would have taken in its place."""
        costs = self._setup.costs
        if costs is None:
            return trace
        if self._setup.controller is not costs:  # else it has learned from the round
            costs.watch(trace)
        reading, self._reading = self._reading, 0.0
        return replace(trace, plain=costs.plain_seconds(trace.position), reading=reading)

    def _held_back(self) -> Iterator[RunEvent]:
        if self._thoughts is not None:
            yield from self._told(self._thoughts.finish())

    def _told(self, traces: Sequence[RoundTrace]) -> Iterator[RunEvent]:
        if traces and not self._retold:
            self._retold = True
            yield Retold(self._begun())
        for trace in traces:
            self._texts.extend(one.shown for one in trace.emitted if one.part == "answer")
            yield trace

    def _begun(self) -> tuple[RetoldToken, ...]:
        if self._thoughts is not None:
            return tuple(RetoldToken(one.text, one.part) for one in self._thoughts.begun)
        text = IncrementalText(self._context.model.vocab.piece)
        return tuple(
            RetoldToken(text.push(token), "answer") for token in self._request.continuation
        )

    def finished(self) -> Finished:
        asked = self._prompt_length - len(self._request.continuation)
        return Finished(
            text="".join(self._texts),
            tokens=tuple(self.context_tokens[self._prompt_length :]),
            finish=self._loop.finish if self._loop is not None else "cancelled",
            prompt_tokens=asked,
            reused_prompt_tokens=min(self._reused, asked),
            seed=self._seed,
            stats=self._counter.snapshot(),
            exact=self._is_exact,
            identical=self._is_identical,
            thought=self._thoughts.thought if self._thoughts is not None else None,
        )

    @property
    def _is_exact(self) -> bool:
        """Typical acceptance at temperature 0 is greedy decoding, and without drafts nothing."""
        return not (self._request.may_change_text and self._counter.snapshot().proposed)

    @property
    def _is_identical(self) -> bool:
        """Where passes agree bit for bit, and the text depends on nothing but them and the seed."""
        request = self._request
        drawn = request.sampling.temperature > 0.0 and request.drafting.coupling != "seed"
        return self._context.options.exact is not None and self._is_exact and not drawn


def _streams(seed: int, coupling: Coupling, start: int) -> Streams:
    if coupling == "seed":
        return Streams(CoupledStream(seed), CoupledStream(seed))
    return Streams(
        IndependentStream(seed, "target", start), IndependentStream(seed, "draft", start)
    )
