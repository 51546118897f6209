"""mtp, the target's own layer for the token after the next, where its file has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.drafters.base import Drafter
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterKind, DrafterPlan, PlanContext
from engine.files.gguf import GgufInfo
from engine.heads.pairing import require_mtp
from engine.models.memory import ModelPlan, estimate

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext
    from engine.llama.context import Context
    from engine.llama.draft_layer import MtpContext


class Mtp(DrafterKind):
    name = "mtp"
    usage = "mtp"
    label = "MTP layer"
    description = "The target's own layer for the token after the next"
    needs_no_file = True
    reads_mtp_layer = True

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        from engine.llama.draft_layer import ROWS_AT_ONCE

        require_mtp(context.info)
        memory = ModelPlan(context.info, context.gpu_layers, ROWS_AT_ONCE, nextn=True)
        return DrafterPlan(
            expression,
            lambda build: _open(context.info, build),
            memory=(memory,),
            reads_mtp_layer=True,
        )


def _open(info: GgufInfo, build: BuildContext) -> Drafter:
    from engine.drafters.features.drafter import DrafterLabel, FeatureDrafter
    from engine.llama.draft_layer import MtpContext

    target = build.target

    def open_decoder(context: Context) -> MtpContext:
        return MtpContext(target, context, build.threads, build.abort)

    memory = estimate(ModelPlan(info, nextn=True), build.context_length)
    states = 4 * build.context_length * info.embedding_length
    drafter = FeatureDrafter(
        DrafterLabel(
            "mtp", "the target's own layer for the token after the next", memory.kept + states
        ),
        (target.layers,),
        open_decoder,
        target.vocab.ends_generation,
        lambda: None,
    )
    build.capture.want(drafter)
    return drafter
