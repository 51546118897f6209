"""medusa, heads that tell all next tokens from one hidden state (Cai et al. 2024, 2401.10774)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.drafters.base import Drafter
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterPlan, PlanContext
from engine.drafters.kinds.heads import HeadsKind
from engine.drafters.trees.static_tree import static_choices
from engine.files.gguf import GgufInfo
from engine.heads.medusa_file import MedusaHeads
from engine.heads.pairing import require_medusa
from engine.models.memory import ModelPlan

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


class Medusa(HeadsKind):
    name = "medusa"
    usage = "medusa[:F]"
    label = "Medusa heads"
    description = "Heads of the target that tell all next tokens at once"

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        path, nodes = self.find(expression, context), self.nodes(expression)
        heads = require_medusa(context.target, path)

        def open_(build: BuildContext) -> Drafter:
            from engine.drafters.features.medusa import MedusaDrafter
            from engine.drafters.features.medusa_graph import MedusaGraph

            graph = MedusaGraph(
                heads,
                build.threads,
                on_progress=lambda fraction: build.report(f"reading {path.stem}", fraction),
            )
            choices = static_choices(nodes, graph.count) if nodes else ()
            size = build.target.vocab.size
            return MedusaDrafter(str(expression), graph, size, heads.token_ids, choices)

        memory = ModelPlan(_heads_info(heads, context.info), output_rows=1, ubatch=1)
        return DrafterPlan(expression, open_, memory=(memory,), may_branch=nodes > 0)


def _heads_info(heads: MedusaHeads, info: GgufInfo) -> GgufInfo:
    """Heads as a model without layers, so that their weights are counted."""
    return replace(
        info,
        name="the heads",
        bytes=heads.bytes,
        block_count=0,
        nextn_layers=0,
        head_count_kv=(),
        full_layers=0,
        kv_values=(),
        sliding=(),
        state_values=(),
    )
