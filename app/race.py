"""The race: one prompt, plain and speculative, one after the other; the page replays both.

Plain decoding runs before and after the other, so that what it differs from itself is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from app.lab import no_process
from app.loading import Loading
from app.names import Names
from app.preferences import PreferencesFile
from app.session import Sessions
from app.task import Task, TaskState
from app.wire import WireEncoder, WireToken
from engine.bench.modes import BenchStoppedError, EngineUnderTest
from engine.bench.samples import BenchReply
from engine.bench.speeds import speed_up_of
from engine.data.errors import BadOptionError, EngineError, RequestError
from engine.data.request import DraftParams, GenerateRequest, Message
from engine.maths.randomness import random_seed
from engine.process.protocols import Generator

LONGEST = 400
"""Tokens: a race that takes a minute to watch has been seen."""


@dataclass(frozen=True, slots=True)
class Track:
    """steps: (seconds since the start, tokens) of every round, reading the prompt included."""

    name: str
    prefill_seconds: float
    steps: tuple[tuple[float, list[WireToken]], ...]
    drafters: tuple[str, ...]
    stats: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RaceState(TaskState):
    """same_text: both wrote the same. speedup: within what the tokens a round allow, None where
    nothing was written. plain_difference: of plain decoding's two replies, as a fraction.

    stands_out: whether the speed-up is more than such noise.
    """

    prompt: str = ""
    tracks: tuple[Track, ...] = ()
    same_text: bool = False
    speedup: float | None = None
    plain_difference: float = 0.0
    stands_out: bool = False


class Race:
    """Uses what is loaded, with the user's settings and one seed for both."""

    def __init__(
        self,
        engine: Generator,
        loading: Loading,
        preferences: PreferencesFile,
        sessions: Sessions,
        names: Names,
    ) -> None:
        busy = "a race is being run: wait until it is done, or stop it"
        self.task = Task("race", busy, RaceState(), sessions)
        self._engine = EngineUnderTest(engine.generate, self.task.is_stopped, no_process)
        self._loading = loading
        self._preferences = preferences
        self._names = names

    def start(self, text: str) -> None:
        """Returns at once. RequestError when nothing is loaded, or nothing that drafts."""
        if not text.strip():
            raise BadOptionError("write a prompt first")
        loaded = self._loading.state()["loaded"]
        if loaded is None:
            raise RequestError("no model is loaded: choose a target and press Load")
        if not loaded["drafters"]:
            raise RequestError("no drafter is loaded: choose one and press Load")
        names = " + ".join(self._names.of_drafter(one["name"]) for one in loaded["drafters"])
        first = RaceState(doing="plain decoding", prompt=text)
        self.task.start(first, lambda: self._run(text, names))

    def _run(self, text: str, drafters: str) -> None:
        settings = self._preferences.current.settings
        base = settings.generate_request((Message("user", text),))
        plain, speculative = race_requests(base)
        try:
            first = self._engine.reply(plain)
            self.task.change(doing=f"with {drafters}")
            second = self._engine.reply(speculative)
            self.task.change(doing="plain decoding again, to see how steady this machine is")
            again = self._engine.reply(plain)
        except BenchStoppedError:
            self.task.change(state="stopped", doing="")
        except EngineError as error:
            self.task.change(state="failed", doing="", error=str(error))
        else:
            # What else a machine does only ever slows it: the quicker one is plain decoding's.
            quicker = min(first, again, key=lambda reply: reply.finished.stats.decode_seconds)
            found = speed_up_of(second, first, again)
            self.task.change(
                state="done",
                doing="",
                tracks=(track("plain", quicker), track(drafters, second)),
                same_text=first.finished.tokens == second.finished.tokens,
                speedup=None if found is None else found.speed.mean,
                plain_difference=0.0 if found is None else found.plain_difference,
                stands_out=found is not None and found.stands_out,
            )


def race_requests(base: GenerateRequest) -> tuple[GenerateRequest, GenerateRequest]:
    """Plain and speculative, prefilled anew, with the same seed.

    Above temperature 0 the coupling is "seed", so that both write the same text.
    """
    seed = random_seed() if base.sampling.seed is None else base.sampling.seed
    drafting = base.drafting
    if drafting.speculate == "off":
        drafting = replace(drafting, speculate="auto")
    drafting = replace(drafting, acceptance="exact")
    if base.sampling.temperature > 0.0:
        drafting = replace(drafting, coupling="seed")
    speculative = replace(
        base,
        max_tokens=base.longest_reply(LONGEST),
        sampling=replace(base.sampling, seed=seed),
        drafting=drafting,
        reuse=False,
    )
    plain = DraftParams(speculate="off", coupling=drafting.coupling)
    return replace(speculative, drafting=plain), speculative


def track(name: str, reply: BenchReply) -> Track:
    """A reply on its own clock: each round's tokens appear when the round ends."""
    encoder = WireEncoder()
    clock = reply.finished.stats.prefill_seconds
    steps = []
    for trace in reply.rounds:
        clock += trace.seconds.total
        steps.append((round(clock, 4), encoder.encode(trace)))
    stats = reply.finished.stats
    drafters = tuple(encoder.drafters)
    return Track(name, stats.prefill_seconds, tuple(steps), drafters, stats.to_json())
