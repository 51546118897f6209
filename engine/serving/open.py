"""Opens what a load plan asks for: target, caches and drafter; tells what came of it."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace

from engine.data.errors import BadOptionError, TemplateError
from engine.data.folders import DataFolder
from engine.data.loaded import DrafterSummary, LoadedSummary, ModelSummary
from engine.data.reasoning import Reasoning
from engine.data.shown import shown
from engine.drafters.base import Drafter
from engine.drafters.build_context import BuildContext
from engine.drafters.copying.earlier import EarlierTexts
from engine.drafters.ensembles.group import members_of
from engine.drafters.features.capture import HiddenStateCapture
from engine.drafters.kinds.ngram import MINIMUM_MATCH
from engine.files.reference import reference_of
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library, devices
from engine.llama.model import Model
from engine.models.memory import ModelPlan, estimate
from engine.serving.numerics import CHEAP, ExactSetup, NumericsChoice
from engine.serving.plan import Loader, LoadPlan, Report, keeps_whole_windows
from engine.serving.tuning import OpenedPair, PairSpeed, Setup, Tuning
from engine.text.chat import ChatTemplate
from engine.text.tokenizer import PromptTokenizer

WIDEST_PASS = 65

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Loaded:
    """Everything open for one load. held: the context that the KV caches belong to.

    ranked: how many of each row's likeliest tokens drafters want. earlier: texts of other chats,
    if a drafter copies from them.
    """

    plan: LoadPlan
    context: Context
    drafter: Drafter | None
    template: ChatTemplate
    tokenizer: PromptTokenizer
    max_width: int
    summary: LoadedSummary
    speed: PairSpeed | None
    ranked: int
    earlier: EarlierTexts | None
    resources: contextlib.ExitStack
    held: list[int]

    def close(self) -> None:
        self.resources.close()


@dataclass(frozen=True, slots=True)
class Opener:
    library: Library
    folder: DataFolder
    abort: AbortFlag
    loader: Loader
    tuning: Tuning

    def open(self, plan: LoadPlan, report: Report, *, thorough: bool = False) -> Loaded:
        """thorough: measures at length. When it fails, nothing is left open."""
        usual = self.tuning.setup(plan)
        plan = replace(plan, threads=usual.threads)
        capture = HiddenStateCapture()
        with contextlib.ExitStack() as opened:
            target = _OpenTarget(self.loader, plan, report)
            opened.callback(target.close)
            usual = self.tuning.with_attention(plan, usual, target.model(usual.repack), report)
            exact = NumericsChoice(self.tuning, target.model, report).choose(plan, usual)
            setup = usual if exact is None else exact.setup
            model = target.model(setup.repack)
            # A drafter may refer to the context: it is opened before it, and closed before it.
            caches = opened.enter_context(contextlib.ExitStack())
            earlier = _earlier_texts(plan, model)
            drafter = self._drafter(plan, setup, model, capture, earlier, report)
            if drafter is not None:
                opened.callback(drafter.close)
            options = _context_options(plan, setup, drafter, capture, exact)
            context = Context(model, options, self.abort)
            caches.callback(context.close)
            capture.connect(context)
            if drafter is not None:
                _require_rollback(plan, context)
            speed = None
            if drafter is not None or thorough:
                report("measuring this machine", 0.0)
                pair = OpenedPair(context, drafter)
                speed = self.tuning.pair(plan, setup, pair, report, thorough=thorough)
            template = _chat_template(plan, model)
            opened.callback(template.close)
            resources = opened.pop_all()
        width = WIDEST_PASS if options.exact is None else options.exact.widest
        return Loaded(
            plan=plan,
            context=context,
            drafter=drafter,
            template=template,
            tokenizer=PromptTokenizer(model.vocab),
            max_width=min(width, context.widest_verify),
            summary=_summary(plan, context, drafter, template, exact),
            speed=speed,
            ranked=capture.ranked,
            earlier=earlier,
            resources=resources,
            held=[],
        )

    def _drafter(
        self,
        plan: LoadPlan,
        setup: Setup,
        model: Model,
        capture: HiddenStateCapture,
        earlier: EarlierTexts | None,
        report: Report,
    ) -> Drafter | None:
        if plan.drafter is None:
            return None
        build = BuildContext(
            target=model,
            context_length=plan.context_length,
            threads=plan.threads,
            gpu_layers=plan.request.gpu_layers,
            abort=self.abort,
            log=self.library.log,
            derived_folder=self.folder.derived,
            capture=capture,
            earlier=earlier,
            plain_attention=setup.plain_attention,
            report=report,
        )
        return plan.drafter.open(build)


class _OpenTarget:
    """The target in one layout at a time: two of them need not fit into memory."""

    def __init__(self, loader: Loader, plan: LoadPlan, report: Report) -> None:
        self._loader = loader
        self._plan = plan
        self._report = report
        self._model: Model | None = None

    def model(self, repack: bool) -> Model:
        """What it opened before is closed if it has the other layout."""
        if self._model is None or self._model.options.repack != repack:
            self.close()
            self._model = self._loader.open_target(self._plan, repack, self._report)
        return self._model

    def close(self) -> None:
        if self._model is not None:
            self._model.close()
            self._model = None


def _context_options(
    plan: LoadPlan,
    setup: Setup,
    drafter: Drafter | None,
    capture: HiddenStateCapture,
    exact: ExactSetup | None,
) -> ContextOptions:
    return ContextOptions(
        plan.context_length,
        WIDEST_PASS,
        plan.threads,
        max_leaves=drafter.max_leaves if drafter is not None else 1,
        embeddings=drafter is not None and drafter.needs == "final hidden state",
        flash_attention=setup.flash_attention,
        exact=None if exact is None else exact.widths,
        layer_inputs=capture.layers,
    )


def _require_rollback(plan: LoadPlan, context: Context) -> None:
    if not context.can_truncate:
        raise BadOptionError(
            f"{plan.target.name} keeps a recurrent state that cannot be rolled back, so "
            "nothing can draft for it; load it without a drafter"
        )


def _earlier_texts(plan: LoadPlan, model: Model) -> EarlierTexts | None:
    if plan.drafter is None or not plan.drafter.copies:
        return None
    vocab = model.vocab
    return EarlierTexts(
        lambda text: vocab.tokenize(text, add_special=False, parse_special=False), MINIMUM_MATCH
    )


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
    exact: ExactSetup | None,
) -> LoadedSummary:
    whole = keeps_whole_windows(plan.request.numerics, plan.drafter)
    memory = estimate(ModelPlan(plan.info, swa_full=whole), plan.context_length)
    drafters = () if drafter is None else (_drafter_summary(drafter),)
    return LoadedSummary(
        request=plan.request,
        target=ModelSummary(
            id=plan.target.id,
            path=reference_of(plan.target.path),
            architecture=plan.info.architecture,
            description=context.model.description,
            bytes=memory.weights,
            kv_bytes=memory.kv + memory.states + memory.kept_state,
            context_length=context.length_limit,
            vocabulary_size=context.model.vocab.size,
            vocabulary=context.model.vocabulary_identity,
        ),
        drafters=drafters,
        has_chat_template=template.is_builtin,
        strict_width=None if exact is None else exact.widths.widest,
        notices=(
            *map(shown, plan.notices),
            *(() if exact is None else _strict_notices(exact)),
        ),
        strict_widths=() if exact is None else exact.widths.widths,
        reasoning=_reasoning(template),
        cards=devices(),
        on_cards=plan.on_cards,
    )


def _reasoning(template: ChatTemplate) -> Reasoning | None:
    """A template that cannot be read refuses the first message, and says why there."""
    try:
        return template.reasoning()
    except TemplateError as error:
        _LOG.warning("nothing is known of this model's thinking: %s", error)
        return None


def _strict_notices(exact: ExactSetup) -> tuple[str, ...]:
    if exact.widths.widest == 1:
        return (
            "strict numerics: here no pass over several tokens agrees with another one bit for bit,"
            " so nothing is drafted; fast numerics have no such limit",
        )
    if exact.added < CHEAP:
        return ()
    return (f"strict numerics: text takes {exact.added:.0%} longer here than with fast ones",)
