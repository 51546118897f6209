"""model:M, a smaller model with the target's tokenizer, or nearly so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.data.errors import BadOptionError
from engine.drafters.base import Drafter
from engine.drafters.expression import DrafterExpression, drafter_text
from engine.drafters.kind import DrafterKind, DrafterPlan, PlanContext
from engine.drafters.quoting import unquoted
from engine.files.gguf import inspect
from engine.models.memory import ModelPlan
from engine.models.pair import require_pair

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


class Model(DrafterKind):
    name = "model"
    usage = "model:M"
    label = "Smaller model"
    description = "A smaller model with the target's tokenizer"

    def normal(self, written: str) -> str:
        argument = unquoted(written)
        if not argument:
            raise BadOptionError(
                f"{self.name}: needs a model, for example {self.name}:qwen-coder-0.5b"
            )
        return argument

    def model_of(self, expression: DrafterExpression) -> str | None:
        return expression.argument

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        path = context.find_model(expression.argument)
        pair = require_pair(context.target, path, drafter_text("tli", expression.argument))
        notes = pair.notes if pair.common else ()

        def open_(build: BuildContext) -> Drafter:
            from engine.drafters.models.open import open_model

            return open_model(str(expression), path, build)

        return DrafterPlan(
            expression,
            open_,
            memory=(ModelPlan(inspect(path), context.gpu_layers, output_rows=1, swa_full=False),),
            notes=tuple(f"{expression}: {note}" for note in notes),
        )
