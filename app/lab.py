"""The Lab: measures drafters on the user's prompts with the loaded target, one after the other.

For each drafter plain decoding runs before and after drafting, so that a ratio never compares two
loads, and what plain decoding differs from itself is known.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.chosen import chosen_json
from app.loading import Loading
from app.preferences import PreferencesFile
from app.session import Sessions
from app.settings import combined
from app.task import Task, TaskState
from engine.bench.figures import BenchReport, ModeFigures, summarise
from engine.bench.modes import (
    BenchSettings,
    BenchStoppedError,
    EngineUnderTest,
    drafting_modes,
    plain_mode,
)
from engine.bench.recommend import Candidate, recommend
from engine.bench.run import Bench, BenchProgress
from engine.bench.samples import PLAIN, BenchSample
from engine.data.errors import BadOptionError, EngineError, RequestError, RunError
from engine.data.prompts import TrialPrompt
from engine.process.protocols import Generator

_REPLIES = 3  # to a prompt: plain, drafting, plain
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LabDrafter:
    """One way to draft. drafters: as the dropdown names them. label: as it is shown.

    expression: what is loaded for them.
    """

    drafters: tuple[str, ...]
    label: str
    expression: str

    @property
    def mode(self) -> str:
        return f"{self.expression} auto"


@dataclass(frozen=True, slots=True)
class LabRequest:
    """max_tokens: of each reply."""

    target: str
    drafters: tuple[LabDrafter, ...]
    prompts: tuple[TrialPrompt, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class LabState(TaskState):
    """problems: drafters left out.

    recommended: drafters to choose, empty for plain decoding; None before there is advice, and
    where the noise is as large as the effect. chosen: the same as the page chooses them.
    predictions: label and expected speed-up of each drafter that was tried in short replies.
    """

    target: str = ""
    prompts: int = 0
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    figures: tuple[dict[str, Any], ...] = ()
    sentence: str = ""
    recommended: tuple[str, ...] | None = None
    chosen: tuple[dict[str, Any], ...] | None = None
    problems: tuple[str, ...] = ()
    predictions: tuple[tuple[str, float], ...] = ()


class Lab:
    """The measurements; task: the one that runs, or ran last."""

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
        busy = "the Lab is measuring: wait until it is done, or stop it"
        self.task = Task("lab", busy, LabState(), sessions)

    def drafter(self, drafters: tuple[str, ...], label: str) -> LabDrafter:
        """Several are combined as the settings say."""
        expression = combined(drafters, self._preferences.current.settings.combination)
        if expression is None:
            raise BadOptionError("choose a drafter to measure")
        return LabDrafter(drafters, label, expression)

    def start(self, request: LabRequest) -> None:
        """Returns at once. RequestError while another one runs or a model is being loaded."""
        if not request.drafters:
            raise BadOptionError("choose at least one drafter to measure")
        self.task.require_idle()
        if self._loading.state()["progress"]:
            raise RequestError("a model is being loaded: wait until it is ready")
        prompts = len(request.prompts)
        total = _REPLIES * len(request.drafters) * prompts
        first = LabState(doing="starting", target=request.target, prompts=prompts, total=total)
        self.task.start(first, lambda: self._run(request))

    def _run(self, request: LabRequest) -> None:
        before = self._loading.state()["loaded_pair"]
        samples: list[BenchSample] = []
        problems: list[str] = []
        measured: list[LabDrafter] = []
        started = time.perf_counter()
        for number, drafter in enumerate(request.drafters):
            done = number * _REPLIES * len(request.prompts)
            follow = _Follower(self, drafter.label, done, started)
            try:
                for taken in self._bench(request, drafter, follow).samples(request.prompts):
                    measured = [*measured, *([] if drafter in measured else [drafter])]
                    samples.extend(taken)
                    self.task.change(figures=_shown(summarise(samples), measured))
            except BenchStoppedError:
                break
            except EngineError as error:
                problems.append(f"{drafter.label}: {error}")
                self.task.change(problems=tuple(problems))
        self._bring_back(before)
        self._end(samples, measured, problems)

    def _bench(self, request: LabRequest, drafter: LabDrafter, follow: _Follower) -> Bench:
        follow.says(f"loading {drafter.label}")
        self._load(request.target, drafter.drafters)
        sampling = self._preferences.current.settings.sampling_params()
        settings = BenchSettings(request.max_tokens, sampling)
        generate, stopped = self._engine.generate, self.task.is_stopped
        engine = EngineUnderTest(generate, stopped, no_process, self._predicted)
        modes = [
            plain_mode(engine, settings),
            *drafting_modes(engine, settings, drafter.expression),
        ]
        return Bench(modes, greedy=sampling.temperature == 0.0, on_progress=follow)

    def _predicted(self) -> Mapping[str, float]:
        loaded = self._engine.loaded
        return {} if loaded is None else loaded.predicted

    def _load(self, target: str, drafters: tuple[str, ...]) -> None:
        if self.task.is_stopped():
            raise BenchStoppedError("the bench was stopped")
        self._loading.start(target, drafters)
        self._loading.wait_or_stop(self.task.is_stopped)
        if self.task.is_stopped():
            raise BenchStoppedError("the bench was stopped")
        error = self._loading.state()["error"]
        if error is not None:
            raise RunError(error["message"])

    def _end(
        self, samples: list[BenchSample], measured: list[LabDrafter], problems: list[str]
    ) -> None:
        """One change, so that a page that sees the end sees the advice too."""
        state = "stopped" if self.task.is_stopped() else "done" if samples else "failed"
        sentence = ""
        recommended: tuple[str, ...] | None = None
        if samples:
            candidates = [Candidate(one.mode, f"{one.label}, auto", one.label) for one in measured]
            advice = recommend(summarise(samples), candidates)
            sentence = advice.sentence
            chosen = next((one.drafters for one in measured if one.mode == advice.mode), ())
            recommended = chosen if advice.settled else None
        self.task.change(
            state=state,
            doing="",
            seconds_left=None,
            sentence=sentence,
            recommended=recommended,
            chosen=None if recommended is None else tuple(chosen_json(recommended)),
            error="" if samples else "; ".join(problems),
        )

    def _bring_back(self, pair: dict[str, Any] | None) -> None:
        """What was loaded before; when that fails the model bar says so."""
        if pair is not None and pair != self._loading.state()["loaded_pair"]:
            self.task.change(doing="loading what was loaded before")
            try:
                self._loading.start(pair["target"], tuple(pair["drafters"]))
            except EngineError as error:  # someone loads something else already
                _LOG.warning("what was loaded before is not brought back: %s", error)
            self._loading.wait()

    def progress(self, done: int, doing: str, seconds: float) -> None:
        """Replies done so far, of all drafters; seconds since the start."""
        left = seconds / done * (self.task.state.total - done) if done else None
        self.task.change(done=done, doing=doing, seconds_left=left)

    def predict(self, label: str, speed_up: float) -> None:
        predictions = dict(self.task.state.predictions)
        if label not in predictions:
            self.task.change(predictions=(*predictions.items(), (label, speed_up)))


class _Follower:
    """One drafter's progress as part of the whole."""

    def __init__(self, lab: Lab, label: str, done_before: int, started: float) -> None:
        self._lab = lab
        self._label = label
        self._done_before = done_before
        self._started = started

    def __call__(self, progress: BenchProgress) -> None:
        for speed_up in progress.predicted.values():  # of the one mode that drafts
            self._lab.predict(self._label, speed_up)
        self._say(self._done_before + progress.done, progress.doing)

    def says(self, doing: str) -> None:
        self._say(self._done_before, doing)

    def _say(self, done: int, doing: str) -> None:
        self._lab.progress(done, doing, time.perf_counter() - self._started)


def no_process() -> int | None:
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
            "predicted": one.predicted_speedup,
            "speedup": one.speedup,
            "low": one.speedup_low,
            "high": one.speedup_high,
            "most": one.speedup_most,
            "settled": one.speedup_settled,
            "plain_difference": one.plain_difference,
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
