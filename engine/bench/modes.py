"""Modes over a loaded engine: plain, auto, and fixed lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import psutil

from engine.bench.samples import PLAIN, BenchMode, BenchReply
from engine.errors import RunError
from engine.events import Finished, RoundTrace, RunEvent
from engine.prompts import TrialPrompt
from engine.request import DraftParams, GenerateRequest, Message, SamplingParams
from engine.verify import top_two_gap

_POLL_SECONDS = 0.25


class BenchStoppedError(RunError):
    """Someone asked the bench to stop; complete prompts are kept."""


class Running(Protocol):
    """A run, as `engine.run.Run`."""

    def next_event(self, timeout: float | None = None) -> RunEvent | None: ...

    def cancel(self) -> None: ...


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
    """generate: starts a run. stopped: asked often; True ends the bench. pid: of its process."""

    generate: Callable[[GenerateRequest], Running]
    stopped: Callable[[], bool]
    pid: Callable[[], int | None]

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


def resident_bytes(pid: int | None) -> int | None:
    """Of a running process; None where there is none to ask."""
    if pid is None:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def plain_mode(engine: EngineUnderTest, settings: BenchSettings) -> BenchMode:
    off = DraftParams(speculate="off")

    def gap(prompt: TrialPrompt, continuation: tuple[int, ...]) -> float:
        def events(request: GenerateRequest) -> tuple[RunEvent, ...]:
            reply = engine.reply(request)
            return (*reply.rounds, reply.finished)

        return top_two_gap(events, settings.request(prompt, off), continuation)

    return replace(_mode(PLAIN, engine, settings, off, None), gap=gap)


def drafting_modes(
    engine: EngineUnderTest, settings: BenchSettings, drafter: str, fixed: tuple[int, ...] = ()
) -> list[BenchMode]:
    """What is loaded drafts: `auto`, and one mode for each fixed length."""
    drafting = {f"{drafter} auto": DraftParams(speculate="auto")}
    for length in fixed:
        drafting[f"{drafter} k={length}"] = DraftParams(speculate="always", draft_max=length)
    modes = [_mode(name, engine, settings, how, drafter) for name, how in drafting.items()]
    auto = replace(modes[0], decides=True, draft_max=DraftParams().draft_max)
    return [auto, *modes[1:]]


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
