"""From a drafter expression to an open drafter for the loaded target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.derived import skipped_copy
from engine.drafters.base import Drafter, StepDrafter
from engine.drafters.best import BestDrafter
from engine.drafters.build_heads import build_eagle, build_eagle3, build_medusa, build_mtp
from engine.drafters.expression import GROUP_KINDS, DrafterExpression, parse_tree
from engine.drafters.first import FirstDrafter
from engine.drafters.mixture import MixtureDrafter
from engine.drafters.model import ModelDrafter, SameTokens, Translation
from engine.drafters.ngram import NgramDrafter
from engine.drafters.recycle import DEEPEST_TREE, SUCCESSORS, RecycleDrafter
from engine.drafters.siblings import TreeDrafter
from engine.drafters.static_tree import static_choices
from engine.drafters.translation import TranslatedTokens
from engine.drafters.union import UnionDrafter
from engine.drafters.vote import VoteDrafter
from engine.drafters.workshop import Workshop
from engine.errors import BadOptionError
from engine.llama.context import Context, ContextOptions
from engine.llama.library import devices
from engine.llama.model import Model, ModelOptions
from engine.llama.vocab import Vocab
from engine.models.gguf import inspect
from engine.models.memory import ModelPlan, estimate
from engine.models.pair import require_pair
from engine.models.token_map import require_shared
from engine.skip.choice import layers_to_skip


def build_drafter(expression: DrafterExpression, workshop: Workshop) -> Drafter:
    """Opens every member; closes those already open when one fails."""
    if expression.kind in GROUP_KINDS:
        return _build_group(expression, workshop)
    if expression.kind == "ngram":
        return NgramDrafter(workshop.earlier)
    if expression.kind == "early-exit":
        return _build_early_exit(expression, workshop)
    if expression.kind == "medusa":
        return build_medusa(expression, workshop)
    if expression.kind == "eagle":
        return build_eagle(expression, workshop)
    if expression.kind == "eagle3":
        return build_eagle3(expression, workshop)
    if expression.kind == "mtp":
        return build_mtp(workshop)
    if expression.kind == "recycle":
        return _build_recycle(expression, workshop)
    path = workshop.find_model(expression.argument)
    if expression.kind == "tli":
        return _build_translated(str(expression), path, workshop)
    return _build_same_tokens(str(expression), path, workshop)


def _build_group(expression: DrafterExpression, workshop: Workshop) -> Drafter:
    members: list[Drafter] = []
    try:
        for member in expression.members:
            members.append(build_drafter(member, workshop))
        return _combine(expression, members, workshop)
    except BaseException:
        for member_drafter in members:
            member_drafter.close()
        raise


def _combine(
    expression: DrafterExpression, members: Sequence[Drafter], workshop: Workshop
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
    uses_gpu = workshop.gpu_layers != 0 and bool(devices())
    return make(steppers, 1 if uses_gpu else workshop.threads)


def _steppers(expression: DrafterExpression, members: Sequence[Drafter]) -> list[StepDrafter]:
    steppers = []
    for member in members:
        if not isinstance(member, StepDrafter):
            raise BadOptionError(
                f"{expression.kind}(...) goes token by token, which {member.name} cannot"
            )
        steppers.append(member)
    return steppers


def _build_recycle(expression: DrafterExpression, workshop: Workshop) -> Drafter:
    nodes = parse_tree(expression.argument)
    choices = static_choices(nodes, DEEPEST_TREE) if nodes else ()
    workshop.tap.want_ranked(SUCCESSORS)
    return RecycleDrafter(str(expression), workshop.target.vocab.size, choices)


def _build_early_exit(expression: DrafterExpression, workshop: Workshop) -> Drafter:
    target = workshop.target
    skip = layers_to_skip(expression.argument, target.path, target.layers, workshop.measurements)
    label = f"leaving out layers {', '.join(map(str, skip))}"
    path = skipped_copy(
        target.path,
        target.layers,
        skip,
        workshop.derived_folder,
        workshop.log,
        lambda fraction: workshop.report(label, fraction),
    )
    return _build_same_tokens(str(expression), path, workshop)


def _build_same_tokens(name: str, path: Path, workshop: Workshop) -> Drafter:
    """A drafter with the target's tokenizer."""
    pair = require_pair(workshop.target.path, path)
    return _build_model(
        name, path, workshop, lambda vocab: SameTokens(pair.draft_limit, vocab.size)
    )


def _build_translated(name: str, path: Path, workshop: Workshop) -> Drafter:
    """A drafter with another tokenizer."""
    tokens = require_shared(workshop.target.path, path)
    target = workshop.target.vocab
    return _build_model(name, path, workshop, lambda vocab: TranslatedTokens(tokens, target, vocab))


def _build_model(
    name: str, path: Path, workshop: Workshop, translation: Callable[[Vocab], Translation]
) -> Drafter:
    plan = ModelPlan(inspect(path), workshop.gpu_layers, output_rows=1, swa_full=False)
    model = Model(
        path,
        ModelOptions(gpu_layers=workshop.gpu_layers),
        workshop.log,
        lambda fraction: workshop.report(f"reading {path.stem}", fraction),
    )
    try:
        context = Context(
            model,
            ContextOptions(
                workshop.context_length,
                1,
                workshop.threads,
                flash_attention=False if workshop.plain_attention else None,
            ),
            workshop.abort,
        )
    except BaseException:
        model.close()
        raise
    memory = estimate(plan, workshop.context_length)
    return ModelDrafter(
        name, context, translation(model.vocab), memory.weights + memory.kv, model.close
    )
