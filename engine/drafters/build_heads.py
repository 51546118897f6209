"""Opens drafters that are heads of the target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.data.errors import UnknownModelError
from engine.drafters.base import Drafter
from engine.drafters.build_context import BuildContext
from engine.drafters.expression import DrafterExpression
from engine.drafters.features.drafter import DrafterLabel, FeatureDrafter
from engine.drafters.features.eagle_graph import EagleGraph, TargetEnds
from engine.drafters.features.eagle_layer import SPARE_CELLS, EagleDecoder
from engine.drafters.features.feature_tree import FeatureTree
from engine.drafters.features.medusa_graph import MedusaGraph
from engine.drafters.heads_argument import parse_heads
from engine.drafters.kinds.medusa import MedusaDrafter
from engine.drafters.trees.expansion import BEAM, MOST_EVALUATED
from engine.drafters.trees.static_tree import static_choices
from engine.files.gguf import inspect
from engine.heads.eagle3_rows import complete_eagle3, lacks_rows
from engine.heads.pairing import (
    require_eagle,
    require_eagle3,
    require_medusa,
    require_mtp,
    target_ends,
)
from engine.llama.context import Context
from engine.llama.derived import derived_path
from engine.llama.draft_layer import Eagle3Context, MtpContext
from engine.llama.draft_tree import Eagle3Tree
from engine.llama.layers import FINAL_STATE
from engine.llama.model import Model, ModelOptions
from engine.models.memory import ModelPlan, estimate


def build_medusa(expression: DrafterExpression, build: BuildContext) -> Drafter:
    argument = parse_heads("medusa", expression.argument)
    path = heads_path("medusa", argument.file, build.find_model)
    heads = require_medusa(build.target.path, path)
    graph = MedusaGraph(
        heads,
        build.threads,
        on_progress=lambda fraction: build.report(f"reading {path.stem}", fraction),
    )
    choices = static_choices(argument.nodes, graph.count) if argument.nodes else ()
    size = build.target.vocab.size
    return MedusaDrafter(str(expression), graph, size, heads.token_ids, choices)


def build_eagle(expression: DrafterExpression, build: BuildContext) -> Drafter:
    argument = parse_heads("eagle", expression.argument)
    path = heads_path("eagle", argument.file, build.find_model)
    layer = require_eagle(build.target.path, path)
    graph = EagleGraph(
        layer,
        TargetEnds(*target_ends(build.target.path)),
        build.context_length + SPARE_CELLS,
        build.threads,
        on_progress=lambda fraction: build.report(f"reading {path.stem}", fraction),
    )
    states = 4 * build.context_length * layer.shape.hidden
    form = f"a tree of up to {argument.nodes}" if argument.nodes else "a chain"
    label = DrafterLabel(str(expression), f"EAGLE layer, {form}", graph.bytes + states)

    def open_decoder(_target: Context) -> EagleDecoder:
        return EagleDecoder(graph, lambda: build.abort.is_set)

    ends = build.target.vocab.ends_generation
    drafter = (
        FeatureTree(label, [FINAL_STATE], open_decoder, ends, graph.close, argument.nodes)
        if argument.nodes
        else FeatureDrafter(label, [FINAL_STATE], open_decoder, ends, graph.close)
    )
    build.capture.want(drafter)
    return drafter


def build_eagle3(expression: DrafterExpression, build: BuildContext) -> Drafter:
    argument = parse_heads("eagle3", expression.argument)
    path = heads_path("eagle3", argument.file, build.find_model)
    require_eagle3(build.target.path, path)
    path = _with_rows(path, build)
    heads = require_eagle3(build.target.path, path)
    model = Model(
        path,
        ModelOptions(gpu_layers=build.gpu_layers),
        build.log,
        lambda fraction: build.report(f"reading {path.stem}", fraction),
    )

    def open_chain(target: Context) -> Eagle3Context:
        return Eagle3Context(model, target, build.threads, build.abort)

    def open_tree(target: Context) -> Eagle3Tree:
        return Eagle3Tree(model, target, build.threads, build.abort, BEAM, MOST_EVALUATED)

    memory = estimate(ModelPlan(heads.info, output_rows=1), build.context_length)
    states = 4 * build.context_length * heads.info.embedding_length
    form = f", a tree of up to {argument.nodes}" if argument.nodes else ""
    label = DrafterLabel(
        str(expression),
        f"EAGLE-3 over layers {', '.join(map(str, heads.layers))}{form}",
        memory.kept + states,
    )
    ends = build.target.vocab.ends_generation
    drafter = (
        FeatureTree(label, heads.layers, open_tree, ends, model.close, argument.nodes)
        if argument.nodes
        else FeatureDrafter(label, heads.layers, open_chain, ends, model.close)
    )
    build.capture.want(drafter)
    return drafter


def _with_rows(path: Path, build: BuildContext) -> Path:
    """The file itself, or a copy that has its rows of the target's head, made once."""
    if not lacks_rows(path):
        return path
    target = build.target.path
    owner = derived_path(target, "head", build.derived_folder).stem
    completed = derived_path(path, owner, build.derived_folder)
    if not completed.is_file():
        completed.parent.mkdir(parents=True, exist_ok=True)
        complete_eagle3(path, target_ends(target)[1], completed)
    return completed


def build_mtp(build: BuildContext) -> Drafter:
    """The target must have been opened with its MTP layer."""
    target = build.target
    info = inspect(target.path)
    require_mtp(info)

    def open_decoder(context: Context) -> MtpContext:
        return MtpContext(target, context, build.threads, build.abort)

    memory = estimate(ModelPlan(info, nextn=True), build.context_length)
    states = 4 * build.context_length * info.embedding_length
    drafter = FeatureDrafter(
        DrafterLabel(
            "mtp",
            "the target's own layer for the token after the next",
            memory.kept + states,
        ),
        (target.layers,),
        open_decoder,
        target.vocab.ends_generation,
        lambda: None,
    )
    build.capture.want(drafter)
    return drafter


def heads_path(kind: str, file: str, find_model: Callable[[str], Path]) -> Path:
    """A file or folder as it is, else what the catalogue or the Hub's cache knows by that name."""
    if not file:
        raise UnknownModelError(
            f"there are no {kind} heads for this target here: train them with "
            f"`forerun train {kind}`, or name a file: {kind}:FILE"
        )
    path = Path(file).expanduser()
    return path if path.exists() else find_model(file)
