"""What is loaded, and one reply at a time from it: the engine process's whole state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.control.controller import AlwaysDraft, Controller, NeverDraft
from engine.control.drafting_memory import TextKind
from engine.data.device import Room
from engine.data.errors import BadOptionError, EngineError, RunError, StopRequested
from engine.data.events import Finished, Notice, RunEvent
from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from engine.data.request import GenerateRequest, LoadRequest
from engine.decode.loop import DraftSetup
from engine.files.gguf import inspect
from engine.files.measurements import Measurements
from engine.llama.abort import AbortFlag, PassAborted
from engine.llama.derived import requantized_copy, skipped_copy
from engine.llama.library import Library
from engine.maths.randomness import random_seed
from engine.serving.counting import Counting
from engine.serving.open import Loaded, Opener
from engine.serving.plan import Loader, LoadPlan, Report
from engine.serving.reply import Reply
from engine.serving.setups import find_setup
from engine.serving.thought_limit import ThoughtLimit, budget_of
from engine.serving.thoughts import ReplyThoughts
from engine.serving.tuning import PairSpeed, Tuning
from engine.skip.choice import layers_to_skip
from engine.skip.job import SearchTools, search_layers
from engine.skip.report import SkipReport, SkipSearchRequest
from engine.text.prompt import build_prompt
from engine.text.render_process import never


class Session:
    def __init__(self, library: Library, data_folder: DataFolder, abort: AbortFlag) -> None:
        self._library = library
        self._folder = data_folder
        self._abort = abort
        self._loader = Loader(library, data_folder)
        self._tuning = Tuning(data_folder, library.version, abort)
        self._opener = Opener(library, data_folder, abort, self._loader, self._tuning)
        self._loaded: Loaded | None = None
        self.counting = Counting()

    @property
    def summary(self) -> LoadedSummary | None:
        loaded = self._loaded
        if loaded is None or loaded.speed is None:
            return loaded.summary if loaded is not None else None
        return replace(loaded.summary, speed=loaded.speed.summary())

    @property
    def _in_use(self) -> Room:
        """What the next load gives back."""
        return Room(0) if self._loaded is None else self._loaded.summary.room

    # Loading

    def load(self, request: LoadRequest, report: Report) -> LoadedSummary:
        """Makes `request` what is loaded. When it fails, what was loaded stays (or comes back)."""
        plan = self._loader.plan(request, self._in_use)
        previous = self._loaded
        if previous is not None and _is_same(previous.plan, plan):
            return _known(self.summary)
        return self._exchange(plan, report, thorough=False)

    def calibrate(self, request: LoadRequest, report: Report) -> LoadedSummary:
        """Measures at length, chooses the fastest setup, and loads that."""
        plan = self._loader.plan(request, self._in_use)
        return self._exchange(plan, report, thorough=True)

    def _exchange(self, plan: LoadPlan, report: Report, *, thorough: bool) -> LoadedSummary:
        previous = self._loaded
        self.unload()
        try:
            if thorough and plan.request.numerics != "strict":
                self._choose_setup(plan, report)
            self._loaded = self._opener.open(plan, report, thorough=thorough)
            self.counting.begin(self._loaded)
        except (EngineError, StopRequested) as error:
            self._abort.clear()
            if previous is not None:
                self._bring_back(previous.plan, report, error)
            raise
        return _known(self.summary)

    def _choose_setup(self, plan: LoadPlan, report: Report) -> None:
        def quiet(_label: str, _fraction: float) -> None:
            pass

        setup, _trials = find_setup(
            lambda repack: self._loader.open_target(plan, repack, quiet),
            plan.threads,
            lambda fraction: report("trying setups of the target", fraction),
            self._abort,
        )
        self._tuning.keep_setup(plan, setup)

    def _bring_back(self, plan: LoadPlan, report: Report, error: Exception) -> None:
        report("bringing back what was loaded", 0.0)
        try:
            self._loaded = self._opener.open(plan, report)
            self.counting.begin(self._loaded)
        except EngineError as second:
            reason = str(error) or "it was stopped"
            raise RunError(f"{reason}; what was loaded before is lost too: {second}") from error

    def unload(self) -> None:
        if self._loaded is not None:
            self.counting.end()
            self._loaded.close()
            self._loaded = None

    def make_model(
        self,
        model: str,
        skip: tuple[int, ...] | None,
        file_format: str | None,
        report: Callable[[float], None],
    ) -> Path:
        """A derived copy in the data folder, made once: in a file format, or without layers.

        skip: the layers to leave out; () chooses them. Not used where a file format is given.
        """
        source = self._loader.find_model(model)
        folder, log = self._folder.derived, self._library.log
        if file_format is not None:
            return requantized_copy(source, file_format, folder, log, report)
        layers = inspect(source).block_count
        known = Measurements(self._folder.measurements_file)
        skip = skip or layers_to_skip("", source, layers, known)
        return skipped_copy(source, layers, skip, folder, log, report)

    def search_layers(
        self, request: SkipSearchRequest, report: Report, cancelled: Callable[[], bool]
    ) -> SkipReport:
        """The best sets of layers to leave out; early-exit uses the best one from now on."""
        tools = SearchTools(self._folder, self._abort, self._library.log, report, cancelled)
        return search_layers(self._loader.find_model(request.model), request, tools)

    # Replying

    def generate(
        self,
        request: GenerateRequest,
        cancelled: Callable[[], bool],
        answer_now: Callable[[], bool] = never,
    ) -> Iterator[RunEvent]:
        """The events of one reply. Closing the iterator early leaves valid caches.

        answer_now: whether it is to end its thoughts, from now on.
        """
        loaded = self._loaded
        if loaded is None:
            raise BadOptionError("no model is loaded; choose a target first")
        if request.drafting.acceptance == "typical" and loaded.plan.request.numerics == "strict":
            raise BadOptionError(
                "typical acceptance changes the text, and strict numerics keep it: use one of them"
            )
        _require_vocabulary(loaded, request)
        held, seed = tuple(loaded.held), request.sampling.seed
        try:
            prompt, notices = build_prompt(
                request, loaded.template, loaded.context, held, loaded.tokenizer, cancelled
            )
            if loaded.earlier is not None:
                loaded.earlier.follow(request.copy_from, cancelled)
        except StopRequested:
            yield Finished.before_anything(seed)
            return
        yield from notices
        setup = DraftSetup(
            drafter=loaded.drafter,
            controller=_controller(loaded, request, len(prompt)),
            max_width=loaded.max_width,
            ranked=loaded.ranked if request.drafting.speculate != "off" else 0,
            costs=None if loaded.speed is None else loaded.speed.auto,
        )
        seed = random_seed() if seed is None else seed
        thoughts = _thoughts(loaded, request, prompt)
        reply = Reply(loaded.context, setup, request, prompt, seed, thoughts)
        try:
            yield from reply.prefill(cancelled)
            limit = None
            if thoughts is not None:
                budget = budget_of(request, _free(loaded, request, prompt))
                limit = _limit(loaded, thoughts, budget, answer_now)
            yield from reply.rounds(cancelled, limit)
        except PassAborted:
            pass  # stopped inside a pass: what was emitted so far is the reply
        finally:
            loaded.held = reply.context_tokens
        if loaded.speed is not None and setup.controller is loaded.speed.auto:
            yield from self._keep_learned(loaded.speed)
        yield reply.finished()

    def _keep_learned(self, speed: PairSpeed) -> Iterator[Notice]:
        try:
            self._tuning.keep(speed)
        except OSError as error:
            yield Notice(f"what was learned about drafting could not be kept: {error}")


def _known(summary: LoadedSummary | None) -> LoadedSummary:
    if summary is None:
        raise RunError("nothing is loaded")
    return summary


def _is_same(loaded: LoadPlan, wanted: LoadPlan) -> bool:
    return loaded.request == wanted.request and loaded.files == wanted.files


def _require_vocabulary(loaded: Loaded, request: GenerateRequest) -> None:
    if request.vocabulary not in (None, loaded.summary.target.vocabulary):
        raise BadOptionError(
            f"the reply cannot go on with {loaded.summary.target.id}: it was written in another "
            "vocabulary; load the model that it began with, or write it again"
        )


def _thoughts(
    loaded: Loaded, request: GenerateRequest, prompt: Sequence[int]
) -> ReplyThoughts | None:
    """A raw prompt may be anything, so that nothing in its reply is a marker."""
    reasoning = loaded.template.reasoning() if request.raw_prompt is None else None
    if reasoning is None:
        return None
    vocab = loaded.context.model.vocab
    return ReplyThoughts(reasoning.markers, vocab, prompt, request.continuation)


def _free(loaded: Loaded, request: GenerateRequest, prompt: Sequence[int]) -> int:
    """Tokens that the context has left for the whole reply, with what it begins with."""
    return loaded.context.length_limit - len(prompt) + len(request.continuation)


def _limit(
    loaded: Loaded, thoughts: ReplyThoughts, budget: int | None, answer_now: Callable[[], bool]
) -> ThoughtLimit:
    vocab = loaded.context.model.vocab
    marker = vocab.tokenize(thoughts.end_marker, add_special=False, parse_special=True)
    return ThoughtLimit(thoughts, budget, marker, answer_now)


def _controller(loaded: Loaded, request: GenerateRequest, prompt_tokens: int) -> Controller:
    drafting = request.drafting
    longest = min(drafting.longest_draft, loaded.max_width - 1)
    if loaded.drafter is None or drafting.speculate == "off" or longest < 1:
        return NeverDraft()
    if drafting.speculate == "always" or loaded.speed is None:
        return AlwaysDraft(longest)
    auto = loaded.speed.auto
    kind: TextKind = "sampled" if request.sampling.temperature > 0 else "greedy"
    room = loaded.context.length_limit - prompt_tokens
    auto.begin_reply(longest, kind, request.longest_reply(room))
    return auto
