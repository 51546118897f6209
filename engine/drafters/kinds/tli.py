"""tli:M, a smaller model with another tokenizer: it drafts the tokens that both have.

Token-level intersection: Timor et al. 2025, 2502.05202.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.drafters.base import Drafter
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterPlan, PlanContext
from engine.drafters.kinds.model import Model
from engine.files.gguf import inspect
from engine.models.memory import ModelPlan
from engine.models.token_map import require_shared

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


class AcrossTokenizers(Model):
    name = "tli"
    usage = "tli:M"
    label = "Across tokenizers"
    description = "Another tokenizer: drafts the tokens that both vocabularies have"

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        path = context.find_model(expression.argument)
        require_shared(context.target, path)

        def open_(build: BuildContext) -> Drafter:
            from engine.drafters.models.open import open_translated

            return open_translated(str(expression), path, build)

        memory = ModelPlan(inspect(path), context.gpu_layers, output_rows=1, swa_full=False)
        return DrafterPlan(expression, open_, memory=(memory,))
