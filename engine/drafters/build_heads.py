"""Opens drafters that are heads of the target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.drafters.base import Drafter
from engine.drafters.expression import DrafterExpression
from engine.drafters.heads_argument import parse_heads
from engine.drafters.medusa import MedusaDrafter
from engine.drafters.medusa_graph import MedusaGraph
from engine.drafters.static_tree import static_choices
from engine.drafters.workshop import Workshop
from engine.errors import UnknownModelError
from engine.models.heads import require_medusa


def build_medusa(expression: DrafterExpression, workshop: Workshop) -> Drafter:
    argument = parse_heads("medusa", expression.argument)
    path = heads_path("medusa", argument.file, workshop.find_model)
    heads = require_medusa(workshop.target.path, path)
    graph = MedusaGraph(
        heads,
        workshop.threads,
        on_progress=lambda fraction: workshop.report(f"reading {path.stem}", fraction),
    )
    choices = static_choices(argument.nodes, graph.count) if argument.nodes else None
    return MedusaDrafter(str(expression), graph, heads.token_ids, choices)


def heads_path(kind: str, file: str, find_model: Callable[[str], Path]) -> Path:
    """A file or folder as it is, else what the catalogue or the Hub's cache knows by that name."""
    if not file:
        raise UnknownModelError(
            f"the catalogue lists no {kind} heads for this target; name a file: {kind}:FILE"
        )
    path = Path(file).expanduser()
    return path if path.exists() else find_model(file)
