"""eagle:F, the layer of a published EAGLE-1 or EAGLE-2 (Li et al. 2024, 2401.15077, 2406.16858)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.drafters.base import Drafter
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterPlan, PlanContext
from engine.drafters.kinds.heads import HeadsKind
from engine.files.gguf import GgufInfo
from engine.heads.eagle_file import EagleLayer
from engine.heads.pairing import require_eagle, target_ends
from engine.models.memory import ModelPlan

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext
    from engine.drafters.features.eagle_layer import EagleDecoder
    from engine.llama.context import Context


class Eagle(HeadsKind):
    name = "eagle"
    usage = "eagle:F"
    label = "EAGLE layer"
    description = "A layer that continues the target's hidden states"

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        from engine.drafters.features.eagle_graph import LEVEL_ROWS
        from engine.llama.native_context import PREFILL_CHUNK

        path, nodes = self.find(expression, context), self.nodes(expression)
        layer = require_eagle(context.target, path)
        memory = ModelPlan(
            eagle_info(layer, context.target, context.info),
            output_rows=LEVEL_ROWS,
            ubatch=LEVEL_ROWS,
        )
        return DrafterPlan(
            expression,
            lambda build: _open(str(expression), layer, nodes, build),
            memory=(memory,),
            may_branch=nodes > 0,
            target_rows=PREFILL_CHUNK,  # every row of a prompt tells its hidden state
        )


def _open(name: str, layer: EagleLayer, nodes: int, build: BuildContext) -> Drafter:
    from engine.drafters.features.drafter import DrafterLabel, FeatureDrafter
    from engine.drafters.features.eagle_graph import EagleGraph, TargetEnds
    from engine.drafters.features.eagle_layer import SPARE_CELLS, EagleDecoder
    from engine.drafters.features.tree import FeatureTree
    from engine.llama.layers import FINAL_STATE

    graph = EagleGraph(
        layer,
        TargetEnds(*target_ends(build.target.path)),
        build.context_length + SPARE_CELLS,
        build.threads,
        on_progress=lambda fraction: build.report(f"reading {layer.file.stem}", fraction),
    )
    states = 4 * build.context_length * layer.shape.hidden
    form = f"a tree of up to {nodes}" if nodes else "a chain"
    label = DrafterLabel(name, f"EAGLE layer, {form}", graph.bytes + states)

    def open_decoder(_target: Context) -> EagleDecoder:
        return EagleDecoder(graph, lambda: build.abort.is_set)

    ends = build.target.vocab.ends_generation
    drafter = (
        FeatureTree(label, [FINAL_STATE], open_decoder, ends, graph.close, nodes)
        if nodes
        else FeatureDrafter(label, [FINAL_STATE], open_decoder, ends, graph.close)
    )
    build.capture.want(drafter)
    return drafter


def eagle_info(layer: EagleLayer, target: Path, info: GgufInfo) -> GgufInfo:
    """An EAGLE layer as a model of one layer, the target's output matrix and the states it keeps.

    Each token's state has 4 bytes a number, as two numbers of a KV cache.
    """
    shape = layer.shape
    weights = sum(one.weight.rows * one.weight.shape[1] for one in layer.linears)
    return replace(
        info,
        path=str(layer.file),
        name="the EAGLE layer",
        bytes=weights * 17 // 16 + target_ends(target)[1].raw.nbytes,
        block_count=1,
        feed_forward_length=shape.feed_forward,
        head_count=(shape.heads,),
        head_count_kv=(shape.kv_heads,),
        key_length=shape.head_width,
        value_length=shape.head_width,
        sliding_window=0,
        full_layers=1,
        nextn_layers=0,
        kv_values=(2 * shape.kv_heads * shape.head_width + 2 * shape.hidden,),
        sliding=(False,),
        state_values=(0,),
    )
