"""What the kinds have in common that run heads of the target from a file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from engine.data.errors import BadOptionError, UnknownModelError
from engine.drafters.expression import DrafterExpression
from engine.drafters.heads_argument import parse_heads
from engine.drafters.kind import DrafterKind, DrafterSettings, PlanContext
from engine.files.reference import file_of
from engine.models.trained import TRAINED_KINDS


class HeadsKind(DrafterKind):
    """Written with a file, with the name of what `forerun train` made, or with nothing: then the
    best heads for the target that are here, else those that the catalogue lists for it."""

    tuning = ("tree",)

    def normal(self, written: str) -> str:
        return str(parse_heads(self.name, written))

    def model_of(self, expression: DrafterExpression) -> str | None:
        file = parse_heads(self.name, expression.argument).file
        return file if file.endswith(".gguf") else None

    def untuned(self, expression: DrafterExpression) -> tuple[DrafterExpression, DrafterSettings]:
        heads = parse_heads(self.name, expression.argument)
        plain = str(replace(heads, nodes=0))
        return replace(expression, argument=plain), DrafterSettings(tree=heads.nodes)

    def tuned(self, expression: DrafterExpression, settings: DrafterSettings) -> DrafterExpression:
        if settings.layers:
            raise BadOptionError(f"{self.name} has no layers to set")
        heads = parse_heads(self.name, expression.argument)
        written = str(replace(heads, nodes=settings.tree))
        return replace(expression, argument=self.normal(written))

    def nodes(self, expression: DrafterExpression) -> int:
        """Of its trees, 0 for chains."""
        return parse_heads(self.name, expression.argument).nodes

    def find(self, expression: DrafterExpression, context: PlanContext) -> Path:
        """The file or folder. UnknownModelError, IncompatiblePairError."""
        file = parse_heads(self.name, expression.argument).file
        if file and os.path.exists(file_of(file)):
            return file_of(file)
        trained = context.find_trained(self.name, file)
        if trained is not None:
            return trained.weights
        reference = file or context.listed_heads(self.name)
        if not reference:
            advice = f"train them with `forerun train {self.name}`, or "
            raise UnknownModelError(
                f"there are no {self.name} heads for this target here: "
                f"{advice if self.name in TRAINED_KINDS else ''}name a file: {self.name}:FILE"
            )
        path = file_of(reference)
        return path if os.path.exists(path) else context.find_model(reference)
