"""early-exit, the target itself without some of its layers, as a model of its own.

Made once and kept; or one that was trained for the target (early-exit:NAME).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.data.errors import BadOptionError, UnknownModelError
from engine.drafters.base import Drafter
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import DrafterKind, DrafterPlan, DrafterSettings, PlanContext
from engine.drafters.quoting import unquoted
from engine.files.gguf import GgufInfo, inspect
from engine.models.memory import ModelPlan
from engine.models.pair import require_pair
from engine.skip.choice import layers_to_skip, parse_early_exit

if TYPE_CHECKING:
    from engine.drafters.build_context import BuildContext


class EarlyExit(DrafterKind):
    name = "early-exit"
    usage = "early-exit[:skip=1+2], early-exit:first=8, early-exit:NAME"
    label = "Early exit"
    description = "The target itself with some layers skipped. Made on first use, kept on disk"
    tuning = ("layers", "siblings")
    needs_no_file = True
    copies_target = True

    def normal(self, written: str) -> str:
        argument = unquoted(written)
        if "=" in argument:  # else it is a name
            parse_early_exit(argument)
        return argument

    def untuned(self, expression: DrafterExpression) -> tuple[DrafterExpression, DrafterSettings]:
        if "=" not in expression.argument:
            return expression, DrafterSettings()
        return DrafterExpression(self.name), DrafterSettings(layers=expression.argument)

    def tuned(self, expression: DrafterExpression, settings: DrafterSettings) -> DrafterExpression:
        if settings.tree:
            raise BadOptionError(f"{self.name} has no tree to set")
        if not settings.layers:
            return expression
        if expression.argument or "=" not in settings.layers:
            raise BadOptionError(f"{expression} leaves out layers as skip=1+2 or first=8, or none")
        return replace(expression, argument=self.normal(settings.layers))

    def plan(
        self,
        expression: DrafterExpression,
        context: PlanContext,
        members: tuple[DrafterPlan, ...],
    ) -> DrafterPlan:
        argument = expression.argument
        if argument and "=" not in argument:
            return self._trained(expression, context)
        layers = context.info.block_count
        skip = layers_to_skip(argument, context.target, layers, context.measurements)
        skipped = _skipped_info(skip, context.info)

        def open_(build: BuildContext) -> Drafter:
            from engine.drafters.models.open import open_model
            from engine.llama.derived import skipped_copy

            label = f"leaving out layers {', '.join(map(str, skip))}"
            path = skipped_copy(
                context.target,
                layers,
                skip,
                build.derived_folder,
                build.log,
                lambda fraction: build.report(label, fraction),
            )
            return open_model(str(expression), path, build)

        memory = ModelPlan(skipped, context.gpu_layers, output_rows=1, swa_full=False)
        return DrafterPlan(expression, open_, memory=(memory,))

    def _trained(self, expression: DrafterExpression, context: PlanContext) -> DrafterPlan:
        """A model of its own."""
        name = expression.argument
        trained = context.find_trained(self.name, name)
        if trained is None:
            raise UnknownModelError(
                f"there is no early-exit drafter {name!r}; make one with "
                f"`forerun train early-exit --out {name}`, or write early-exit:skip=10+13"
            )
        path = context.find_model(str(trained.weights))
        require_pair(context.target, path)

        def open_(build: BuildContext) -> Drafter:
            from engine.drafters.models.open import open_model

            return open_model(str(expression), path, build)

        memory = ModelPlan(inspect(path), context.gpu_layers, output_rows=1, swa_full=False)
        return DrafterPlan(expression, open_, memory=(memory,))


def _skipped_info(skip: Sequence[int], info: GgufInfo) -> GgufInfo:
    """What the target without some of its layers will look like."""
    if any(layer >= info.block_count for layer in skip) or len(skip) >= info.block_count:
        raise BadOptionError(
            f"early-exit: the target has layers 0 to {info.block_count - 1}, "
            f"cannot skip {'+'.join(map(str, skip))}"
        )
    layers = [layer for layer in range(info.block_count) if layer not in skip]
    sliding = tuple(info.sliding[layer] for layer in layers)
    return replace(
        info,
        bytes=info.bytes * len(layers) // info.block_count,
        block_count=len(layers),
        head_count_kv=tuple(info.head_count_kv[layer] for layer in layers),
        full_layers=sliding.count(False),
        kv_values=tuple(info.kv_values[layer] for layer in layers),
        sliding=sliding,
        state_values=tuple(info.state_values[layer] for layer in layers),
    )
