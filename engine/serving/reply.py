"""One reply: prefill what is new, run rounds, sum up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.control.controller import Controller
from engine.data.errors import BadOptionError, EngineError
from engine.data.events import Finished, Notice, PromptProgress, RunEvent
from engine.data.request import Coupling, GenerateRequest
from engine.data.rounds import RoundTrace
from engine.data.stats import StatsCounter
from engine.decode.loop import LoopOptions, RoundLoop, Streams
from engine.drafters.base import Drafter, Preparing
from engine.llama.context import Context
from engine.llama.native_context import PREFILL_CHUNK
from engine.maths.randomness import CoupledStream, IndependentStream
from engine.maths.sampling import Sampler


@dataclass(frozen=True, slots=True)
class ReplySetup:
    """What a reply is made with. max_width: widest verify pass allowed, in rows.

    ranked: how many of each row's likeliest tokens the drafter is shown.
    """

    context: Context
    drafter: Drafter | None
    controller: Controller
    max_width: int
    ranked: int = 0


class Reply:
    """Afterwards `context_tokens` is what the KV caches stand for, the last token excepted."""

    def __init__(
        self, setup: ReplySetup, request: GenerateRequest, prompt: Sequence[int], seed: int
    ) -> None:
        """BadOptionError when the request does not go with how the target was loaded."""
        if request.drafting.acceptance == "typical" and setup.context.options.exact_order:
            raise BadOptionError(
                "typical acceptance changes the text, and strict numerics keep it: use one of them"
            )
        self._setup = setup
        self._request = request
        self._prompt = list(prompt)
        self._seed = seed
        self._reused = 0
        self._texts: list[str] = []
        self._tokens: list[int] = []
        self._prefill_seconds = 0.0
        self._counter = StatsCounter()
        self._drafter = setup.drafter
        self._loop: RoundLoop | None = None

    @property
    def context_tokens(self) -> list[int]:
        return [*self._prompt, *self._tokens]

    def prefill(self, cancelled: Callable[[], bool]) -> Iterator[RunEvent]:
        """Brings target and drafter to the prompt; its last token belongs to the first round."""
        started = time.perf_counter()
        context = self._setup.context
        wanted = self._prompt[:-1]
        if not self._request.reuse:
            context.clear()
        self._reused = context.reuse(wanted)
        yield PromptProgress(self._reused, len(wanted), self._reused)
        for start in range(self._reused, len(wanted), PREFILL_CHUNK):
            if cancelled():
                return
            context.feed(wanted[start : start + PREFILL_CHUNK])
            yield PromptProgress(len(context.tokens), len(wanted), self._reused)
        if self._drafter is not None and self._request.drafting.speculate != "off":
            try:
                self._drafter.begin(self._prompt)
                if isinstance(self._drafter, Preparing):
                    self._drafter.prepare(self._setup.controller.of(self._drafter.name))
            except EngineError as error:
                yield Notice(f"the drafter {self._drafter.name} cannot follow this chat: {error}")
                self._drafter = None
        self._prefill_seconds = time.perf_counter() - started

    def rounds(self, cancelled: Callable[[], bool]) -> Iterator[RunEvent]:
        """Round traces and notices until the reply ends."""
        loop = self._loop = RoundLoop(
            self._setup.context,
            self._drafter,
            self._setup.controller,
            Sampler(self._request.sampling),
            _streams(self._seed, self._request.drafting.coupling),
            LoopOptions(
                self._request.max_tokens,
                self._setup.max_width,
                self._request.drafting,
                self._setup.ranked,
            ),
        )
        self._counter = StatsCounter(self._prefill_seconds)
        vocabulary = self._setup.context.model.vocab
        for event in loop.run(self._prompt, vocabulary, cancelled):
            if isinstance(event, RoundTrace):
                self._counter.add(event)
                self._tokens.extend(emitted.token for emitted in event.emitted)
                self._texts.extend(emitted.text for emitted in event.emitted)
            yield event

    def finished(self) -> Finished:
        return Finished(
            text="".join(self._texts),
            tokens=tuple(self._tokens),
            finish=self._loop.finish if self._loop is not None else "cancelled",
            prompt_tokens=len(self._prompt),
            reused_prompt_tokens=self._reused,
            seed=self._seed,
            stats=self._counter.snapshot(),
            exact=self._is_exact,
        )

    @property
    def _is_exact(self) -> bool:
        """Typical acceptance at temperature 0 is greedy decoding, and without drafts nothing."""
        request = self._request
        changes = request.drafting.acceptance == "typical" and request.sampling.temperature > 0.0
        return not (changes and self._counter.snapshot().proposed)


def _streams(seed: int, coupling: Coupling) -> Streams:
    if coupling == "seed":
        return Streams(CoupledStream(seed), CoupledStream(seed))
    return Streams(IndependentStream(seed, "target"), IndependentStream(seed, "draft"))
