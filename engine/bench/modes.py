"""Modes over a loaded engine: plain, auto, and fixed lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.bench.samples import PLAIN, BenchMode, BenchReply
from engine.bench.verify import top_two_gap
from engine.control.drafting_memory import TextKind
from engine.data.errors import RunError
from engine.data.events import Finished, RunEvent
from engine.data.machine import resident_bytes
from engine.data.prompts import TrialPrompt
from engine.data.request import DraftParams, GenerateRequest, Message, SamplingParams
from engine.data.rounds import RoundTrace
from engine.drafters.parse import parse_expression
from engine.drafters.registry import kind_named
from engine.process.protocols import RunHandle

_POLL_SECONDS = 0.25
_PROBE_TOKENS = 48


class BenchStoppedError(RunError):
    """Someone asked the bench to stop; complete prompts are kept."""


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What all modes have in common; a missing seed becomes 0."""

    max_tokens: int
    sampling: SamplingParams

    def request(self, prompt: TrialPrompt, drafting: DraftParams) -> GenerateRequest:
        seed = 0 if self.sampling.seed is None else self.sampling.seed
        return GenerateRequest(
            messages=(Message("user", prompt.text),),
            max_tokens=self.max_tokens,
            sampling=replace(self.sampling, seed=seed),
            drafting=drafting,
            overflow="trim",
            reuse=False,
        )


@dataclass(frozen=True, slots=True)
class EngineUnderTest:
    """generate: starts a run. stopped: asked often; True ends the bench. pid: of its process.

    predicted: expected speed-ups of what is loaded, by kind of text.
    """

    generate: Callable[[GenerateRequest], RunHandle]
    stopped: Callable[[], bool]
    pid: Callable[[], int | None]
    predicted: Callable[[], Mapping[str, float]] = dict

    def reply(self, request: GenerateRequest) -> BenchReply:
        """BenchStoppedError when it was asked to stop."""
        rounds: list[RoundTrace] = []
        for event in self._events(request):
            if isinstance(event, RoundTrace):
                rounds.append(event)
            if isinstance(event, Finished):
                if event.finish == "cancelled":
                    raise BenchStoppedError("the bench was stopped")
                return BenchReply(event, tuple(rounds), resident_bytes(self.pid()))
        raise RunError("the reply ended without its last event")

    def _events(self, request: GenerateRequest) -> list[RunEvent]:
        run = self.generate(request)
        events: list[RunEvent] = []
        cancelled = False
        while not events or not isinstance(events[-1], Finished):
            event = run.next_event(timeout=_POLL_SECONDS)
            if event is not None:
                events.append(event)
            if not cancelled and self.stopped():
                cancelled = True
                run.cancel()
        return events


def plain_mode(engine: EngineUnderTest, settings: BenchSettings) -> BenchMode:
    off = DraftParams(speculate="off")

    def gap(prompt: TrialPrompt, continuation: tuple[int, ...]) -> float:
        def events(request: GenerateRequest) -> tuple[RunEvent, ...]:
            reply = engine.reply(request)
            return (*reply.rounds, reply.finished)

        return top_two_gap(events, settings.request(prompt, off), continuation)

    return replace(_mode(PLAIN, engine, settings, off, None), gap=gap)


AUTO = 0
"""Among lengths of drafts: as far as pays."""


def remembers(drafter: str) -> bool:
    """Whether it would know the reply to a prompt that it saw answered before."""
    return any(kind_named(leaf.kind).remembers for leaf in parse_expression(drafter).leaves())


def length_groups(drafter: str, fixed: Sequence[int]) -> list[tuple[int, ...]]:
    """auto and the fixed lengths, those together that may share one loaded drafter.

    A drafter that remembers what the target found likely would know a prompt's reply from the mode
    before, so it is loaded once for each.
    """
    lengths = (AUTO, *fixed)
    if remembers(drafter):
        return [(length,) for length in lengths]
    return [lengths]


def drafting_modes(
    engine: EngineUnderTest,
    settings: BenchSettings,
    drafter: str,
    lengths: Sequence[int] = (AUTO,),
) -> list[BenchMode]:
    """What is loaded drafts: `auto`, or a fixed length."""
    modes = []
    for length in lengths:
        if length == AUTO:
            params = DraftParams(speculate="auto")
            auto = _mode(f"{drafter} auto", engine, settings, params, drafter)
            predict = None if remembers(drafter) else _predictor(engine, settings)
            longest = params.longest_draft
            modes.append(replace(auto, decides=True, draft_max=longest, predict=predict))
        else:
            params = DraftParams(speculate="always", draft_max=length)
            modes.append(_mode(f"{drafter} k={length}", engine, settings, params, drafter))
    return modes


def _predictor(
    engine: EngineUnderTest, settings: BenchSettings
) -> Callable[[Sequence[TrialPrompt]], float | None]:
    short = replace(settings, max_tokens=min(settings.max_tokens, _PROBE_TOKENS))
    kind: TextKind = "sampled" if settings.sampling.temperature > 0 else "greedy"

    def predict(prompts: Sequence[TrialPrompt]) -> float | None:
        for prompt in prompts:
            engine.reply(short.request(prompt, DraftParams(speculate="auto")))
        return engine.predicted().get(kind)

    return predict


def _mode(
    name: str,
    engine: EngineUnderTest,
    settings: BenchSettings,
    drafting: DraftParams,
    drafter: str | None,
) -> BenchMode:
    def reply(prompt: TrialPrompt) -> BenchReply:
        return engine.reply(settings.request(prompt, drafting))

    return BenchMode(name, reply, drafter=drafter)
