"""The race: one prompt, plain and speculative, one after the other; the page replays both."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.lab import Generator
from app.loading import Loading
from app.preferences import PreferencesFile
from app.session import Sessions
from app.throttle import Throttle
from app.wire import WireEncoder, WireToken
from engine.bench.modes import BenchStoppedError, EngineUnderTest
from engine.bench.samples import BenchReply
from engine.errors import BadOptionError, EngineError, RequestError
from engine.randomness import random_seed
from engine.request import DraftParams, GenerateRequest, Message

LONGEST = 400
"""Tokens: a race that takes a minute to watch has been seen."""


@dataclass(frozen=True, slots=True)
class Lane:
    """steps: (seconds since the start, tokens) of every round, reading the prompt included."""

    name: str
    prefill_seconds: float
    steps: tuple[tuple[float, list[WireToken]], ...]
    drafters: tuple[str, ...]
    stats: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RaceState:
    """state: idle, running, done, stopped or failed. same_text: both wrote the same."""

    state: str = "idle"
    prompt: str = ""
    doing: str = ""
    lanes: tuple[Lane, ...] = ()
    same_text: bool = False
    speedup: float = 1.0
    error: str = ""


class Race:
    """Thread-safe. Uses what is loaded, with the user's settings and one seed for both."""

    def __init__(
        self,
        engine: Generator,
        loading: Loading,
        preferences: PreferencesFile,
        sessions: Sessions,
    ) -> None:
        self._engine = EngineUnderTest(engine.generate, self._is_stopped, _no_process)
        self._loading = loading
        self._preferences = preferences
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._state = RaceState()
        self._announce = Throttle(lambda: sessions.broadcast(self.state())).request

    @property
    def is_running(self) -> bool:
        return self._state.state == "running"

    def state(self) -> dict[str, Any]:
        """The page's event."""
        return {"k": "race", **asdict(self._state)}

    def start(self, text: str) -> None:
        """Returns at once. RequestError when nothing is loaded, or nothing that drafts."""
        if not text.strip():
            raise BadOptionError("write a prompt first")
        loaded = self._loading.state()["loaded"]
        if loaded is None:
            raise RequestError("no model is loaded: choose a target and press Load")
        if not loaded["drafters"]:
            raise RequestError("no drafter is loaded: choose one and press Load")
        with self._lock:
            if self.is_running:
                raise RequestError("a race is being run: wait until it is done, or stop it")
            self._state = RaceState("running", text, "plain decoding")
            self._stop.clear()
        names = " + ".join(one["name"] for one in loaded["drafters"])
        self._thread = threading.Thread(
            target=self._run, args=(text, names), name="race", daemon=True
        )
        self._thread.start()
        self._announce()

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self.stop()
        self.wait(10)

    def wait(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, text: str, drafters: str) -> None:
        settings = self._preferences.current.settings
        base = settings.generate_request((Message("user", text),))
        plain, speculative = race_requests(base)
        try:
            first = self._engine.reply(plain)
            self._change(doing=f"with {drafters}")
            second = self._engine.reply(speculative)
        except BenchStoppedError:
            self._change(state="stopped", doing="")
        except EngineError as error:
            self._change(state="failed", doing="", error=str(error))
        else:
            self._change(
                state="done",
                doing="",
                lanes=(lane("plain", first), lane(drafters, second)),
                same_text=first.finished.tokens == second.finished.tokens,
                speedup=_rate(second) / _rate(first),
            )

    def _is_stopped(self) -> bool:
        return self._stop.is_set()

    def _change(self, **changes: Any) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)
        self._announce()


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
        max_tokens=min(base.max_tokens, LONGEST),
        sampling=replace(base.sampling, seed=seed),
        drafting=drafting,
        reuse=False,
    )
    plain = DraftParams(speculate="off", coupling=drafting.coupling)
    return replace(speculative, drafting=plain), speculative


def lane(name: str, reply: BenchReply) -> Lane:
    """A reply on its own clock: each round's tokens appear when the round ends."""
    encoder = WireEncoder()
    clock = reply.finished.stats.prefill_seconds
    steps = []
    for trace in reply.rounds:
        clock += trace.seconds.total
        steps.append((round(clock, 4), encoder.encode(trace)))
    stats = reply.finished.stats
    drafters = tuple(encoder.drafters)
    return Lane(name, stats.prefill_seconds, tuple(steps), drafters, stats.to_json())


def _rate(reply: BenchReply) -> float:
    return reply.finished.stats.tokens_per_second or 1.0


def _no_process() -> int | None:
    return None
