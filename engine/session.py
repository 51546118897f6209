"""What is loaded, and one reply at a time from it: the engine process's whole state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engine.control.auto_draft import TextKind
from engine.control.controller import AlwaysDraft, Controller, NeverDraft
from engine.derived import requantized_copy, skipped_copy
from engine.drafters.base import Drafter
from engine.drafters.build import build_drafter
from engine.drafters.earlier import EarlierTexts
from engine.drafters.group import members_of
from engine.drafters.ngram import MINIMUM_MATCH
from engine.drafters.tap import TargetTap
from engine.drafters.workshop import Workshop
from engine.errors import BadOptionError, EngineError, RunError
from engine.events import Notice, RunEvent
from engine.folders import DataFolder
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions, PassAborted
from engine.llama.library import Library
from engine.llama.model import Model
from engine.loading import Loader, LoadPlan, Report
from engine.measure.measurements import Measurements
from engine.measure.setups import find_setup
from engine.measure.tuning import PairSpeed, Setup, Tuning
from engine.models.gguf import inspect
from engine.models.memory import ModelPlan, estimate
from engine.process.messages import DrafterSummary, LoadedSummary, MakeModel, ModelSummary
from engine.randomness import random_seed
from engine.reply import Reply, ReplySetup
from engine.request import GenerateRequest, LoadRequest
from engine.skip.choice import layers_to_skip
from engine.skip.job import SearchTools, search_layers
from engine.skip.report import SkipReport, SkipSearchRequest
from engine.text.chat import ChatTemplate
from engine.text.prompt import build_prompt

WIDEST_PASS = 65


@dataclass(slots=True)
class _Loaded:
    """Everything open for one load. held: the context that the KV caches belong to.

    ranked: how many of each row's likeliest tokens drafters want. earlier: texts of other chats,
    if a drafter copies from them.
    """

    plan: LoadPlan
    model: Model
    context: Context
    drafter: Drafter | None
    template: ChatTemplate
    max_width: int
    summary: LoadedSummary
    speed: PairSpeed | None
    held: list[int]
    ranked: int
    earlier: EarlierTexts | None

    def close(self) -> None:
        if self.drafter is not None:
            self.drafter.close()
        self.context.close()
        self.model.close()


class Session:
    def __init__(self, library: Library, data_folder: DataFolder, abort: AbortFlag) -> None:
        self._library = library
        self._folder = data_folder
        self._abort = abort
        self._loader = Loader(library, data_folder)
        self._tuning = Tuning(data_folder, library.version)
        self._loaded: _Loaded | None = None

    @property
    def summary(self) -> LoadedSummary | None:
        loaded = self._loaded
        if loaded is None or loaded.speed is None:
            return loaded.summary if loaded is not None else None
        return replace(loaded.summary, speed=loaded.speed.summary())

    # Loading

    def load(self, request: LoadRequest, report: Report) -> LoadedSummary:
        """Makes `request` what is loaded. When it fails, what was loaded stays (or comes back)."""
        in_use = _bytes_in_use(self.summary)
        plan = self._loader.plan(request, in_use)
        previous = self._loaded
        if previous is not None and _is_same(previous.plan, plan):
            return _known(self.summary)
        return self._exchange(plan, report, thorough=False)

    def calibrate(self, request: LoadRequest, report: Report) -> LoadedSummary:
        """Measures at length, chooses the fastest setup, and loads that."""
        plan = self._loader.plan(request, _bytes_in_use(self.summary))
        return self._exchange(plan, report, thorough=True)

    def _exchange(self, plan: LoadPlan, report: Report, *, thorough: bool) -> LoadedSummary:
        previous = self._loaded
        self.unload()
        try:
            if thorough and plan.request.numerics == "fast":
                self._choose_setup(plan, report)
            self._loaded = self._open(plan, report, thorough=thorough)
        except EngineError as error:
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
        )
        self._tuning.keep_setup(plan, setup)

    def _bring_back(self, plan: LoadPlan, report: Report, error: EngineError) -> None:
        try:
            self._loaded = self._open(plan, report)
        except EngineError as second:
            raise RunError(f"{error}; what was loaded before is lost too: {second}") from error

    def unload(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None

    def _open(self, plan: LoadPlan, report: Report, *, thorough: bool = False) -> _Loaded:
        strict = (
            self._loader.strict_setup(plan, report) if plan.request.numerics == "strict" else None
        )
        strict_width = strict.width if strict is not None else None
        setup = self._tuning.setup(plan) if strict is None else Setup(plan.threads, strict.repack)
        plan = replace(plan, threads=setup.threads)
        model = self._loader.open_target(plan, setup.repack, report)
        opened: list[Drafter | Context | Model] = [model]
        try:
            tap = TargetTap()
            earlier = _earlier_texts(plan, model)
            drafter = self._open_drafter(plan, model, tap, earlier, report)
            if drafter is not None:
                opened.insert(0, drafter)
            context = Context(
                model,
                ContextOptions(
                    plan.context_length,
                    WIDEST_PASS,
                    plan.threads,
                    max_leaves=drafter.max_leaves if drafter is not None else 1,
                    embeddings=drafter is not None and drafter.needs == "final hidden state",
                    flash_attention=strict.flash_attention if strict is not None else None,
                    exact_order=strict is not None,
                    layer_inputs=tap.layers,
                ),
                self._abort,
            )
            opened.insert(-1, context)  # after the drafter, which may refer to it
            tap.connect(context)
            if drafter is not None and not context.can_truncate:
                raise BadOptionError(
                    f"{plan.target.name} keeps a recurrent state that cannot be rolled back, so "
                    "nothing can draft for it; load it without a drafter"
                )
            speed = None
            if drafter is not None or thorough:
                report("measuring this machine", 0.0)
                opened_pair = (context, drafter)
                speed = self._tuning.pair(plan, setup, opened_pair, report, thorough=thorough)
            template = _chat_template(plan, model)
        except BaseException:
            for resource in opened:
                resource.close()
            raise
        return _Loaded(
            plan=plan,
            model=model,
            context=context,
            drafter=drafter,
            template=template,
            max_width=min(strict_width or WIDEST_PASS, context.widest_verify),
            summary=_summary(plan, context, drafter, template, strict_width),
            speed=speed,
            held=[],
            ranked=tap.ranked,
            earlier=earlier,
        )

    def _open_drafter(
        self,
        plan: LoadPlan,
        model: Model,
        tap: TargetTap,
        earlier: EarlierTexts | None,
        report: Report,
    ) -> Drafter | None:
        if plan.expression is None:
            return None
        workshop = Workshop(
            target=model,
            context_length=plan.context_length,
            threads=plan.threads,
            gpu_layers=plan.request.gpu_layers,
            abort=self._abort,
            log=self._library.log,
            derived_folder=self._folder.derived,
            find_model=self._loader.find_model,
            tap=tap,
            earlier=earlier,
            measurements=Measurements(self._folder.measurements_file),
            report=report,
        )
        return build_drafter(plan.expression, workshop)

    def make_model(self, command: MakeModel, report: Callable[[float], None]) -> Path:
        """A derived copy in the data folder; made once."""
        source = self._loader.find_model(command.source)
        folder, log = self._folder.derived, self._library.log
        if command.file_format is not None:
            return requantized_copy(source, command.file_format, folder, log, report)
        layers = inspect(source).block_count
        known = Measurements(self._folder.measurements_file)
        skip = command.skip or layers_to_skip("", source, layers, known)
        return skipped_copy(source, layers, skip, folder, log, report)

    def search_layers(
        self, request: SkipSearchRequest, report: Report, cancelled: Callable[[], bool]
    ) -> SkipReport:
        """The best sets of layers to leave out; early-exit uses the best one from now on."""
        tools = SearchTools(self._folder, self._abort, self._library.log, report, cancelled)
        return search_layers(self._loader.find_model(request.model), request, tools)

    # Replying

    def generate(
        self, request: GenerateRequest, cancelled: Callable[[], bool]
    ) -> Iterator[RunEvent]:
        """The events of one reply. Closing the iterator early leaves valid caches."""
        loaded = self._loaded
        if loaded is None:
            raise BadOptionError("no model is loaded; choose a target first")
        prompt, notices = build_prompt(request, loaded.template, loaded.context, tuple(loaded.held))
        yield from notices
        if loaded.earlier is not None:
            loaded.earlier.follow(request.copy_from)
        seed = request.sampling.seed
        setup = ReplySetup(
            context=loaded.context,
            drafter=loaded.drafter,
            controller=_controller(loaded, request),
            max_width=loaded.max_width,
            ranked=loaded.ranked if request.drafting.speculate != "off" else 0,
        )
        reply = Reply(setup, request, prompt, random_seed() if seed is None else seed)
        try:
            yield from reply.prefill(cancelled)
            yield from reply.rounds(cancelled)
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


def _earlier_texts(plan: LoadPlan, model: Model) -> EarlierTexts | None:
    leaves = plan.expression.leaves() if plan.expression is not None else ()
    if all(leaf.kind != "ngram" for leaf in leaves):
        return None
    vocab = model.vocab
    return EarlierTexts(
        lambda text: vocab.tokenize(text, add_special=False, parse_special=False), MINIMUM_MATCH
    )


def _known(summary: LoadedSummary | None) -> LoadedSummary:
    if summary is None:
        raise RunError("nothing is loaded")
    return summary


def _is_same(loaded: LoadPlan, wanted: LoadPlan) -> bool:
    return loaded.request == wanted.request and loaded.files == wanted.files


def _controller(loaded: _Loaded, request: GenerateRequest) -> Controller:
    drafting = request.drafting
    if loaded.drafter is None or drafting.speculate == "off":
        return NeverDraft()
    if drafting.speculate == "always" or loaded.speed is None:
        return AlwaysDraft(drafting.draft_max)
    auto = loaded.speed.auto
    kind: TextKind = "sampled" if request.sampling.temperature > 0 else "greedy"
    auto.begin_reply(drafting.draft_max, kind, request.max_tokens)
    return auto


def _chat_template(plan: LoadPlan, model: Model) -> ChatTemplate:
    vocab = model.vocab
    return ChatTemplate(
        plan.info.chat_template, vocab.special_text(vocab.bos), vocab.special_text(vocab.eos)
    )


def _drafter_summary(drafter: Drafter) -> DrafterSummary:
    members = tuple(_drafter_summary(member) for member in members_of(drafter))
    return DrafterSummary(drafter.name, drafter.description, drafter.memory_bytes, members)


def _summary(
    plan: LoadPlan,
    context: Context,
    drafter: Drafter | None,
    template: ChatTemplate,
    strict_width: int | None,
) -> LoadedSummary:
    branches = drafter is not None and drafter.max_leaves > 1
    memory = estimate(ModelPlan(plan.info, swa_full=branches), plan.context_length)
    drafters = () if drafter is None else (_drafter_summary(drafter),)
    return LoadedSummary(
        request=plan.request,
        target=ModelSummary(
            id=plan.target.id,
            path=str(plan.target.path),
            architecture=plan.info.architecture,
            description=context.model.description,
            bytes=memory.weights,
            kv_bytes=memory.kv,
            context_length=context.length_limit,
            vocabulary_size=context.model.vocab.size,
        ),
        drafters=drafters,
        has_chat_template=template.is_builtin,
        strict_width=strict_width,
        notices=plan.notices,
    )


def _bytes_in_use(summary: LoadedSummary | None) -> int:
    if summary is None:
        return 0
    drafters = sum(drafter.memory_bytes for drafter in summary.drafters)
    return summary.target.bytes + summary.target.kv_bytes + drafters
