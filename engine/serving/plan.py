"""Checks a load request against files and memory, and opens the target it asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.data.device import Room
from engine.data.errors import MemoryLimitError, ModelFileError
from engine.data.folders import DataFolder
from engine.data.machine import physical_cores
from engine.data.request import LoadRequest, Numerics
from engine.drafters.kind import DrafterPlan, PlanContext
from engine.drafters.parse import parse_expression
from engine.drafters.registry import plan_drafter
from engine.files.file_key import FileKey, file_key
from engine.files.gguf import GgufInfo, inspect
from engine.files.measurements import Measurements
from engine.llama.library import Library, devices
from engine.llama.model import Model, ModelOptions
from engine.models.catalogue import Catalogue
from engine.models.fit import check_fit, needed_room
from engine.models.locate import LocatedModel, locate
from engine.models.memory import OUTPUT_ROWS, ModelPlan, free_ram
from engine.models.trained import for_target
from engine.serving.context_choice import usual_context

Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A load request that passed every check that can be made before reading weights.

    files: what it would read, with sizes and times, so that a replaced file is noticed.
    on_cards: bytes that it takes of the graphics cards.
    """

    request: LoadRequest
    target: LocatedModel
    info: GgufInfo
    drafter: DrafterPlan | None
    context_length: int
    threads: int
    notices: tuple[str, ...]
    files: tuple[FileKey, ...]
    on_cards: int = 0


class Loader:
    """Finds models and opens targets; keeps nothing loaded itself."""

    def __init__(self, library: Library, data_folder: DataFolder) -> None:
        self._library = library
        self._folder = data_folder

    def find_model(self, reference: str) -> Path:
        return self._locate(reference).path

    def _locate(self, reference: str) -> LocatedModel:
        return locate(reference, Catalogue.load(self._folder), self._folder)

    def plan(self, request: LoadRequest, in_use: Room) -> LoadPlan:
        """Raises a RequestError or ModelFileError that says why the load cannot work.

        in_use: memory that the present load will give back.
        """
        target = self._locate(request.target)
        info = inspect(target.path)
        if info.needs is not None:
            raise ModelFileError(f"{target.name} is not a target: it is {info.needs}")
        gpu_layers = request.gpu_layers if devices() else 0
        drafter = None
        if request.drafter:
            context = self._plan_context(target, info, gpu_layers)
            drafter = plan_drafter(parse_expression(request.drafter), context)
        plans = [_target_plan(info, gpu_layers, request.numerics, drafter)]
        notes: tuple[str, ...] = ()
        if drafter is not None:
            plans.extend(drafter.memory)
            notes = drafter.notes
        on_cards = sum(device.free_bytes for device in devices())
        free = Room(free_ram(), on_cards) + in_use
        context_length = request.context_length or usual_context(plans, free)
        notices = notes + _check_memory(plans, context_length, free)
        notices += _check_trained_context(info, context_length)
        return LoadPlan(
            request=request,
            target=target,
            info=info,
            drafter=drafter,
            context_length=context_length,
            threads=request.threads or physical_cores(),
            notices=notices,
            files=tuple(file_key(Path(one.info.path)) for one in plans),
            on_cards=needed_room(plans, context_length).device,
        )

    def _plan_context(self, target: LocatedModel, info: GgufInfo, gpu_layers: int) -> PlanContext:
        entry = Catalogue.load(self._folder).get(target.id)

        def listed(kind: str) -> str:
            heads = (one.partition(":") for one in (entry.heads if entry is not None else ()))
            return next((reference for name, _, reference in heads if name == kind), "")

        return PlanContext(
            target=target.path,
            info=info,
            gpu_layers=gpu_layers,
            find_model=self.find_model,
            find_trained=lambda kind, name: for_target(kind, name, target.path, self._folder),
            listed_heads=listed,
            measurements=Measurements(self._folder.measurements_file),
        )

    def open_target(self, plan: LoadPlan, repack: bool, report: Report) -> Model:
        mtp = plan.drafter is not None and plan.drafter.reads_mtp_layer
        model = Model(
            plan.target.path,
            ModelOptions(plan.request.gpu_layers, repack, mtp),
            self._library.log,
            lambda fraction: report(f"reading {plan.target.name}", fraction),
        )
        if not model.generates_text:
            model.close()
            raise ModelFileError(f"{plan.target.name} does not generate text")
        return model


def keeps_whole_windows(numerics: Numerics, drafter: DrafterPlan | None) -> bool:
    """Whether layers with a sliding window keep the whole context, as trees and strict numerics
    need it."""
    return numerics == "strict" or (drafter is not None and drafter.may_branch)


def _target_plan(
    info: GgufInfo, gpu_layers: int, numerics: Numerics, drafter: DrafterPlan | None
) -> ModelPlan:
    rows = OUTPUT_ROWS if drafter is None else drafter.target_rows
    whole = keeps_whole_windows(numerics, drafter)
    return ModelPlan(info, gpu_layers, rows, swa_full=whole)


def _check_trained_context(info: GgufInfo, context_length: int) -> tuple[str, ...]:
    trained = info.context_length
    if not trained or context_length <= trained:
        return ()
    return (
        f"a context of {context_length:,} is longer than the {trained:,} tokens that"
        f" {info.name} was made for: text beyond that may make no sense",
    )


def _check_memory(plans: list[ModelPlan], context_length: int, free: Room) -> tuple[str, ...]:
    fit = check_fit(plans, context_length, free)
    if fit.level == "refuse":
        raise MemoryLimitError(f"not loaded: {fit.message}")
    return (fit.message,) if fit.level == "warn" else ()
