"""A drafter for a target that a test has opened, planned and opened as a load does it."""

from __future__ import annotations

from pathlib import Path

from engine.data.errors import UnknownModelError
from engine.drafters.base import Drafter
from engine.drafters.build_context import BuildContext
from engine.drafters.expression import DrafterExpression
from engine.drafters.kind import PlanContext
from engine.drafters.registry import plan_drafter
from engine.files.gguf import inspect
from engine.files.measurements import Measurements


def plan_context(target: Path, folder: Path, gpu_layers: int = 0) -> PlanContext:
    """Files are found by their paths only; nothing was trained, nothing is listed."""
    return PlanContext(
        target=target,
        info=inspect(target),
        gpu_layers=gpu_layers,
        find_model=find_file,
        find_trained=lambda _kind, _name: None,
        listed_heads=lambda _kind: "",
        measurements=Measurements(folder / "measurements.json"),
    )


def find_file(reference: str) -> Path:
    path = Path(reference)
    if not path.exists():
        raise UnknownModelError(f"no {reference}")
    return path


def build_drafter(expression: DrafterExpression, build: BuildContext) -> Drafter:
    context = plan_context(build.target.path, build.derived_folder, build.gpu_layers)
    return plan_drafter(expression, context).open(build)
