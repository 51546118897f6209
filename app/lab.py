"""The Lab: measures drafters on the user's prompts with the loaded target, one after the other.

For each drafter plain decoding and drafting take turns, so that a ratio never compares two loads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from app.loading import Loading
from app.preferences import PreferencesFile
from app.session import Sessions
from app.throttle import Throttle
from engine.bench.figures import BenchReport, ModeFigures, summarise
from engine.bench.modes import (
    BenchSettings,
    BenchStoppedError,
    EngineUnderTest,
    Running,
    drafting_modes,
    plain_mode,
)
from engine.bench.recommend import Candidate, recommend
from engine.bench.run import Bench, BenchProgress
from engine.bench.samples import PLAIN, BenchSample
from engine.errors import BadOptionError, EngineError, RequestError, RunError
from engine.prompts import TrialPrompt
from engine.request import GenerateRequest

_LOAD_SECONDS = 1800.0


class Generator(Protocol):
    """The part of `engine.process.client.EngineClient` that writes replies."""

    def generate(self, request: GenerateRequest) -> Running: ...


@dataclass(frozen=True, slots=True)
class LabDrafter:
    """One way to draft. drafters: as the dropdown names them. label: as it is shown."""

    drafters: tuple[str, ...]
    label: str

    @property
    def mode(self) -> str:
        return f"{self.name} auto"

    @property
    def name(self) -> str:
        return "+".join(self.drafters)


@dataclass(frozen=True, slots=True)
class LabRequest:
    """max_tokens: of each reply."""

    target: str
    drafters: tuple[LabDrafter, ...]
    prompts: tuple[TrialPrompt, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class LabState:
    """state: idle, running, stopping, done, stopped or failed. problems: drafters left out.

    recommended: drafters to choose, empty for plain decoding; None before there is advice.
    """

    state: str = "idle"
    target: str = ""
    prompts: int = 0
    done: int = 0
    total: int = 0
    doing: str = ""
    seconds_left: float | None = None
    figures: tuple[dict[str, Any], ...] = ()
    sentence: str = ""
    recommended: tuple[str, ...] | None = None
    problems: tuple[str, ...] = ()
    error: str = ""


class Lab:
    """Thread-safe. One measurement at a time; it belongs to this process, not to a page."""

    def __init__(
        self,
        engine: Generator,
        loading: Loading,
        preferences: PreferencesFile,
        sessions: Sessions,
    ) -> None:
        self._engine = engine
        self._loading = loading
        self._preferences = preferences
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = LabState()
        self._announce = Throttle(lambda: sessions.broadcast(self.state())).request

    @property
    def is_running(self) -> bool:
        return self._state.state in ("running", "stopping")

    def state(self) -> dict[str, Any]:
        """The page's event."""
        return {"k": "lab", **asdict(self._state)}

    def start(self, request: LabRequest) -> None:
        """Returns at once. RequestError while another one runs or a model is being loaded."""
        if not request.drafters:
            raise BadOptionError("choose at least one drafter to measure")
        with self._lock:
            if self.is_running:
                raise RequestError("the Lab is measuring: wait until it is done, or stop it")
            if self._loading.state()["progress"]:
                raise RequestError("a model is being loaded: wait until it is ready")
            total = 2 * len(request.drafters) * len(request.prompts)
            self._state = LabState(
                "running", request.target, len(request.prompts), total=total, doing="starting"
            )
            self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(request,), name="lab", daemon=True)
        self._thread.start()
        self._announce()

    def stop(self) -> None:
        """What is complete is kept and shown."""
        with self._lock:
            if self._state.state == "running":
                self._state = replace(self._state, state="stopping")
                self._stop.set()
        self._announce()

    def close(self) -> None:
        self.stop()
        self.wait(10)

    def wait(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, request: LabRequest) -> None:
        before = self._loading.state()["loaded_pair"]
        samples: list[BenchSample] = []
        problems: list[str] = []
        measured: list[LabDrafter] = []
        started = time.perf_counter()
        for number, drafter in enumerate(request.drafters):
            follow = _Follower(self, number * 2 * len(request.prompts), started)
            try:
                for taken in self._bench(request, drafter, follow).samples(request.prompts):
                    measured = [*measured, *([] if drafter in measured else [drafter])]
                    samples.extend(taken)
                    self._change(figures=_shown(summarise(samples), measured))
            except BenchStoppedError:
                break
            except EngineError as error:
                problems.append(f"{drafter.label}: {error}")
                self._change(problems=tuple(problems))
        self._bring_back(before)
        self._end(samples, measured, problems)

    def _bench(self, request: LabRequest, drafter: LabDrafter, follow: _Follower) -> Bench:
        follow.says(f"loading {drafter.label}")
        self._load(request.target, drafter.drafters)
        sampling = self._preferences.current.settings.sampling_params()
        settings = BenchSettings(request.max_tokens, sampling)
        engine = EngineUnderTest(self._engine.generate, self._stop.is_set, _no_process)
        modes = [plain_mode(engine, settings), *drafting_modes(engine, settings, drafter.name)]
        return Bench(modes, greedy=sampling.temperature == 0.0, on_progress=follow)

    def _load(self, target: str, drafters: tuple[str, ...]) -> None:
        if self._stop.is_set():
            raise BenchStoppedError("the bench was stopped")
        self._loading.start(target, drafters)
        self._loading.wait(_LOAD_SECONDS)
        error = self._loading.state()["error"]
        if error is not None:
            raise RunError(error["message"])

    def _end(
        self, samples: list[BenchSample], measured: list[LabDrafter], problems: list[str]
    ) -> None:
        """One change, so that a page that sees the end sees the advice too."""
        state = "stopped" if self._stop.is_set() else "done" if samples else "failed"
        sentence, recommended = "", None
        if samples:
            candidates = [Candidate(one.mode, f"{one.label}, auto", one.label) for one in measured]
            advice = recommend(summarise(samples), candidates)
            sentence = advice.sentence
            recommended = next((one.drafters for one in measured if one.mode == advice.mode), ())
        self._change(
            state=state,
            doing="",
            seconds_left=None,
            sentence=sentence,
            recommended=recommended,
            error="" if samples else "; ".join(problems),
        )

    def _bring_back(self, pair: dict[str, Any] | None) -> None:
        """What was loaded before; when that fails the model bar says so."""
        if pair is not None and pair != self._loading.state()["loaded_pair"]:
            self._change(doing="loading what was loaded before")
            self._loading.start(pair["target"], tuple(pair["drafters"]))
            self._loading.wait(_LOAD_SECONDS)

    def _change(self, **changes: Any) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)
        self._announce()

    def progress(self, done: int, doing: str, seconds: float) -> None:
        """Replies done so far, of all drafters; seconds since the start."""
        left = seconds / done * (self._state.total - done) if done else None
        self._change(done=done, doing=doing, seconds_left=left)


class _Follower:
    """One drafter's progress as part of the whole."""

    def __init__(self, lab: Lab, done_before: int, started: float) -> None:
        self._lab = lab
        self._done_before = done_before
        self._started = started

    def __call__(self, progress: BenchProgress) -> None:
        self._say(self._done_before + progress.done, progress.doing)

    def says(self, doing: str) -> None:
        self._say(self._done_before, doing)

    def _say(self, done: int, doing: str) -> None:
        self._lab.progress(done, doing, time.perf_counter() - self._started)


def _no_process() -> int | None:
    return None  # one engine for all: its memory is shown in the model bar


def _shown(report: BenchReport, measured: Sequence[LabDrafter]) -> tuple[dict[str, Any], ...]:
    """Plain decoding first, then the drafters as they were measured."""
    labels = {PLAIN: "Plain decoding", **{one.mode: one.label for one in measured}}
    return tuple(
        {
            "label": labels[one.mode],
            "plain": one.mode == PLAIN,
            "prompts": one.prompts,
            "tokens_per_second": one.tokens_per_second,
            "speedup": one.speedup,
            "low": one.speedup_low,
            "high": one.speedup_high,
            "acceptance_rate": one.acceptance_rate,
            "mean_accepted_length": one.mean_accepted_length,
            "by_category": _by_category(report, one),
        }
        for one in report.overall
    )


def _by_category(report: BenchReport, figures: ModeFigures) -> dict[str, float]:
    return {
        category: one.speedup
        for category, modes in report.by_category.items()
        for one in modes
        if one.mode == figures.mode
    }
