"""eagle3, a drafter over several layers of the target (Li et al. 2025, 2503.01840), a GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.drafters.base import Drafter
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterPlan, PlanContext
from engine.drafters.kinds.heads import HeadsKind
from engine.drafters.trees.expansion import BEAM, MOST_EVALUATED
from engine.heads.eagle3_rows import complete_eagle3, lacks_rows
from engine.heads.pairing import require_eagle3, target_ends
from engine.models.memory import ModelPlan, estimate

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext
    from engine.llama.context import Context
    from engine.llama.draft_layer import Eagle3Context
    from engine.llama.draft_tree import Eagle3Tree


class Eagle3(HeadsKind):
    name = "eagle3"
    usage = "eagle3[:F]"
    label = "EAGLE-3"
    description = "A small decoder over three layers of the target"

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        from engine.llama.draft_layer import ROWS_AT_ONCE

        path, nodes = self.find(expression, context), self.nodes(expression)
        heads = require_eagle3(context.target, path)
        memory = ModelPlan(heads.info, context.gpu_layers, ROWS_AT_ONCE, ubatch=ROWS_AT_ONCE)
        return DrafterPlan(
            expression,
            lambda build: _open(str(expression), path, nodes, build),
            memory=(memory,),
            may_branch=nodes > 0,
        )


def _open(name: str, file: Path, nodes: int, build: BuildContext) -> Drafter:
    from engine.drafters.features.drafter import DrafterLabel, FeatureDrafter
    from engine.drafters.features.tree import FeatureTree
    from engine.llama.draft_layer import Eagle3Context
    from engine.llama.draft_tree import Eagle3Tree
    from engine.llama.model import Model, ModelOptions

    path = _with_rows(file, build)
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
    layers = f"EAGLE-3 over layers {', '.join(map(str, heads.layers))}"
    form = f", a tree of up to {nodes}" if nodes else ""
    label = DrafterLabel(name, layers + form, memory.kept + states)
    ends = build.target.vocab.ends_generation
    drafter = (
        FeatureTree(label, heads.layers, open_tree, ends, model.close, nodes)
        if nodes
        else FeatureDrafter(label, heads.layers, open_chain, ends, model.close)
    )
    build.capture.want(drafter)
    return drafter


def _with_rows(path: Path, build: BuildContext) -> Path:
    """The file itself, or a copy that has its rows of the target's head, made once."""
    from engine.llama.derived import derived_path

    if not lacks_rows(path):
        return path
    target = build.target.path
    owner = derived_path(target, "head", build.derived_folder).stem
    completed = derived_path(path, owner, build.derived_folder)
    if not completed.is_file():
        completed.parent.mkdir(parents=True, exist_ok=True)
        complete_eagle3(path, target_ends(target)[1], completed)
    return completed
