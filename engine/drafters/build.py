"""From a drafter expression to an open drafter for the loaded target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.data.errors import BadOptionError
from engine.drafters.base import Drafter, StepDrafter
from engine.drafters.build_context import BuildContext
from engine.drafters.build_heads import build_eagle, build_eagle3, build_medusa, build_mtp
from engine.drafters.ensembles.best import BestDrafter
from engine.drafters.ensembles.first import FirstDrafter
from engine.drafters.ensembles.mixture import MixtureDrafter
from engine.drafters.ensembles.tree import TreeDrafter
from engine.drafters.ensembles.union import UnionDrafter
from engine.drafters.ensembles.vote import VoteDrafter
from engine.drafters.expression import GROUP_KINDS, DrafterExpression, parse_tree
from engine.drafters.kinds.model import ModelDrafter, SameTokens, Translation
from engine.drafters.kinds.ngram import NgramDrafter
from engine.drafters.kinds.recycle import DEEPEST_TREE, SUCCESSORS, RecycleDrafter
from engine.drafters.translation import TranslatedTokens
from engine.drafters.trees.static_tree import static_choices
from engine.files.gguf import inspect
from engine.llama.context import Context, ContextOptions
from engine.llama.derived import skipped_copy
from engine.llama.library import devices
from engine.llama.model import Model, ModelOptions
from engine.llama.vocab import Vocab
from engine.models.memory import ModelPlan, estimate
from engine.models.pair import require_pair
from engine.models.token_map import require_shared
from engine.skip.choice import layers_to_skip


def build_drafter(expression: DrafterExpression, build: BuildContext) -> Drafter:
    """Opens every member; closes those already open when one fails."""
    if expression.kind in GROUP_KINDS:
        return _build_group(expression, build)
    if expression.kind == "ngram":
        return NgramDrafter(build.earlier)
    if expression.kind == "early-exit":
        return _build_early_exit(expression, build)
    if expression.kind == "medusa":
        return build_medusa(expression, build)
    if expression.kind == "eagle":
        return build_eagle(expression, build)
    if expression.kind == "eagle3":
        return build_eagle3(expression, build)
    if expression.kind == "mtp":
        return build_mtp(build)
    if expression.kind == "recycle":
        return _build_recycle(expression, build)
    path = build.find_model(expression.argument)
    if expression.kind == "tli":
        return _build_translated(str(expression), path, build)
    return _build_same_tokens(str(expression), path, build)


def _build_group(expression: DrafterExpression, build: BuildContext) -> Drafter:
    members: list[Drafter] = []
    try:
        for member in expression.members:
            members.append(build_drafter(member, build))
        return _combine(expression, members, build)
    except BaseException:
        for member_drafter in members:
            member_drafter.close()
        raise


def _combine(
    expression: DrafterExpression, members: Sequence[Drafter], build: BuildContext
) -> Drafter:
    if expression.kind == "first":
        return FirstDrafter(members)
    if expression.kind == "union":
        return UnionDrafter(members)
    if expression.kind == "best":
        return BestDrafter(members)
    steppers = _steppers(expression, members)
    if expression.kind == "tree":
        return TreeDrafter(steppers[0])
    make = VoteDrafter if expression.kind == "vote" else MixtureDrafter
    # One graphics card runs one pass at a time.
    uses_gpu = build.gpu_layers != 0 and bool(devices())
    return make(steppers, 1 if uses_gpu else build.threads)


def _steppers(expression: DrafterExpression, members: Sequence[Drafter]) -> list[StepDrafter]:
    steppers = []
    for member in members:
        if not isinstance(member, StepDrafter):
            raise BadOptionError(
                f"{expression.kind}(...) goes token by token, which {member.name} cannot"
            )
        steppers.append(member)
    return steppers


def _build_recycle(expression: DrafterExpression, build: BuildContext) -> Drafter:
    nodes = parse_tree(expression.argument)
    choices = static_choices(nodes, DEEPEST_TREE) if nodes else ()
    build.capture.want_ranked(SUCCESSORS)
    return RecycleDrafter(str(expression), build.target.vocab.size, choices)


def _build_early_exit(expression: DrafterExpression, build: BuildContext) -> Drafter:
    target = build.target
    skip = layers_to_skip(expression.argument, target.path, target.layers, build.measurements)
    label = f"leaving out layers {', '.join(map(str, skip))}"
    path = skipped_copy(
        target.path,
        target.layers,
        skip,
        build.derived_folder,
        build.log,
        lambda fraction: build.report(label, fraction),
    )
    return _build_same_tokens(str(expression), path, build)


def _build_same_tokens(name: str, path: Path, build: BuildContext) -> Drafter:
    """A drafter with the target's tokenizer, or nearly so."""
    pair = require_pair(build.target.path, path)
    if pair.common:
        return _build_translated(name, path, build)
    return _build_model(name, path, build, lambda vocab: SameTokens(pair.draft_limit, vocab.size))


def _build_translated(name: str, path: Path, build: BuildContext) -> Drafter:
    """A drafter with another tokenizer."""
    tokens = require_shared(build.target.path, path)
    target = build.target.vocab
    return _build_model(name, path, build, lambda vocab: TranslatedTokens(tokens, target, vocab))


def _build_model(
    name: str, path: Path, build: BuildContext, translation: Callable[[Vocab], Translation]
) -> Drafter:
    plan = ModelPlan(inspect(path), build.gpu_layers, output_rows=1, swa_full=False)
    model = Model(
        path,
        ModelOptions(gpu_layers=build.gpu_layers),
        build.log,
        lambda fraction: build.report(f"reading {path.stem}", fraction),
    )
    try:
        context = Context(
            model,
            ContextOptions(
                build.context_length,
                1,
                build.threads,
                flash_attention=False if build.plain_attention else None,
            ),
            build.abort,
        )
    except BaseException:
        model.close()
        raise
    memory = estimate(plan, build.context_length)
    return ModelDrafter(name, context, translation(model.vocab), memory.kept, model.close)
