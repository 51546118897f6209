"""Checks a load request against files and memory, and opens the target it asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import psutil

from engine.drafters.build_heads import heads_path
from engine.drafters.eagle_graph import LEVEL_ROWS
from engine.drafters.expression import DrafterExpression, parse_expression
from engine.drafters.heads_argument import parse_heads
from engine.drafters.named import resolved
from engine.errors import BadOptionError, MemoryLimitError, ModelFileError, RunError
from engine.folders import DataFolder
from engine.llama.draft_layer import ROWS_AT_ONCE
from engine.llama.library import Library, devices
from engine.llama.model import Model, ModelOptions
from engine.llama.native_context import PREFILL_CHUNK
from engine.measure.measurements import Measurements, measurement_key
from engine.models.catalogue import Catalogue
from engine.models.eagle_file import EagleLayer
from engine.models.gguf import GgufInfo, file_key, inspect
from engine.models.heads import (
    require_eagle,
    require_eagle3,
    require_medusa,
    require_mtp,
    target_ends,
)
from engine.models.locate import LocatedModel, locate
from engine.models.medusa_file import MedusaHeads
from engine.models.memory import OUTPUT_ROWS, ModelPlan, check_fit, default_context, free_ram
from engine.models.pair import require_pair
from engine.models.token_map import require_shared
from engine.models.trained import for_target
from engine.request import LoadRequest
from engine.skip.choice import layers_to_skip
from engine.strict import StrictSetup, find_strict_setup

Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A load request that passed every check that can be made before reading weights.

    files: what it would read, with sizes and times, so that a replaced file is noticed.
    """

    request: LoadRequest
    target: LocatedModel
    info: GgufInfo
    expression: DrafterExpression | None
    context_length: int
    threads: int
    notices: tuple[str, ...]
    files: tuple[tuple[Path, int, int], ...]


class Loader:
    """Finds models and opens targets; keeps nothing loaded itself."""

    def __init__(self, library: Library, data_folder: DataFolder) -> None:
        self._library = library
        self._folder = data_folder

    def find_model(self, reference: str) -> Path:
        return self._locate(reference).path

    def _locate(self, reference: str) -> LocatedModel:
        return locate(reference, Catalogue.load(self._folder), self._folder)

    def plan(self, request: LoadRequest, bytes_in_use: int) -> LoadPlan:
        """Raises a RequestError or ModelFileError that says why the load cannot work.

        bytes_in_use: memory that the present load will give back.
        """
        target = self._locate(request.target)
        info = inspect(target.path)
        if info.needs is not None:
            raise ModelFileError(f"{target.name} is not a target: it is {info.needs}")
        context_length = request.context_length or default_context(info)
        expression = self._expression(request.drafter, target) if request.drafter else None
        gpu_layers = request.gpu_layers if devices() else 0
        branches = expression is not None and expression.may_branch
        rows = _output_rows(expression)
        plans = [ModelPlan(info, gpu_layers, rows, swa_full=branches)]
        if expression is not None:
            plans.extend(self._drafter_plans(expression, target.path, info, gpu_layers))
        notices = _check_memory(plans, context_length, bytes_in_use)
        notices += _check_trained_context(info, context_length)
        return LoadPlan(
            request=request,
            target=target,
            info=info,
            expression=expression,
            context_length=context_length,
            threads=request.threads or default_threads(),
            notices=notices,
            files=tuple(file_key(Path(one.info.path)) for one in plans),
        )

    def _expression(self, text: str, target: LocatedModel) -> DrafterExpression:
        """With files in the place of names."""
        entry = Catalogue.load(self._folder).get(target.id)

        def listed(kind: str) -> str:
            heads = (one.partition(":") for one in (entry.heads if entry is not None else ()))
            return next((reference for name, _, reference in heads if name == kind), "")

        return resolved(
            parse_expression(text),
            lambda kind, name: for_target(kind, name, target.path, self._folder),
            listed,
        )

    def _drafter_plans(
        self, expression: DrafterExpression, target: Path, target_info: GgufInfo, gpu_layers: int
    ) -> list[ModelPlan]:
        plans = []
        for leaf in expression.leaves():
            if leaf.kind in ("model", "tli"):
                path = self.find_model(leaf.argument)
                require = require_pair if leaf.kind == "model" else require_shared
                require(target, path)
                plans.append(ModelPlan(inspect(path), gpu_layers, output_rows=1, swa_full=False))
            elif leaf.kind == "early-exit":
                known = Measurements(self._folder.measurements_file)
                layers = target_info.block_count
                skip = layers_to_skip(leaf.argument, target, layers, known)
                skipped = _skipped_info(skip, target_info)
                plans.append(ModelPlan(skipped, gpu_layers, output_rows=1, swa_full=False))
            elif leaf.kind == "medusa":
                file = parse_heads(leaf.kind, leaf.argument).file
                heads = require_medusa(target, heads_path(leaf.kind, file, self.find_model))
                plans.append(ModelPlan(_heads_info(heads, target_info), output_rows=1, ubatch=1))
            elif leaf.kind == "eagle":
                file = parse_heads(leaf.kind, leaf.argument).file
                layer = require_eagle(target, heads_path(leaf.kind, file, self.find_model))
                eagle = eagle_info(layer, target, target_info)
                plans.append(ModelPlan(eagle, output_rows=LEVEL_ROWS, ubatch=LEVEL_ROWS))
            elif leaf.kind == "eagle3":
                file = parse_heads(leaf.kind, leaf.argument).file
                drafter = require_eagle3(target, heads_path(leaf.kind, file, self.find_model))
                plans.append(ModelPlan(drafter.info, gpu_layers, ROWS_AT_ONCE, ubatch=ROWS_AT_ONCE))
            elif leaf.kind == "mtp":
                require_mtp(target_info)
        return plans

    def open_target(self, plan: LoadPlan, repack: bool, report: Report) -> Model:
        leaves = plan.expression.leaves() if plan.expression is not None else ()
        mtp = any(leaf.kind == "mtp" for leaf in leaves)
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

    def strict_setup(self, plan: LoadPlan, report: Report) -> StrictSetup:
        """Measured once for a file, number of threads and library version."""
        known = Measurements(self._folder.measurements_file)
        setup_name = f"threads={plan.threads}|gpu={plan.request.gpu_layers}|{self._library.version}"
        key = measurement_key("strict", plan.target.path, setup_name)
        found = known.get(key)
        if found is not None and found.keys() == {item.name for item in fields(StrictSetup)}:
            setup = StrictSetup(**found)
        else:
            setup = self._find_strict(plan, report)
            self._keep_measured(known, key, setup)
        if setup.width < 1:
            raise BadOptionError(
                f"{plan.target.name} has no reproducible setup on this machine; use --numerics fast"
            )
        return setup

    def _keep_measured(self, known: Measurements, key: str, setup: StrictSetup) -> None:
        try:
            known.put(key, asdict(setup))
        except OSError as error:
            raise RunError(
                f"{self._folder.measurements_file} cannot be written ({error.strerror or error}); "
                "free some space, or choose another --data-dir"
            ) from error

    def _find_strict(self, plan: LoadPlan, report: Report) -> StrictSetup:
        def quiet(_label: str, _fraction: float) -> None:
            pass

        return find_strict_setup(
            lambda repack: self.open_target(plan, repack, quiet),
            plan.threads,
            lambda fraction: report("finding the widest exact pass", fraction),
        )


def default_threads() -> int:
    """Physical cores: hyper-threads slow llama.cpp's kernels down."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def _skipped_info(skip: Sequence[int], info: GgufInfo) -> GgufInfo:
    """What the target without some of its layers will look like."""
    if any(layer >= info.block_count for layer in skip) or len(skip) >= info.block_count:
        raise BadOptionError(
            f"early-exit: the target has layers 0 to {info.block_count - 1}, "
            f"cannot skip {'+'.join(map(str, skip))}"
        )
    kept = info.block_count - len(skip)
    return replace(
        info,
        bytes=info.bytes * kept // info.block_count,
        block_count=kept,
        head_count_kv=info.head_count_kv[:kept],
        full_layers=min(info.full_layers, kept),
    )


def _heads_info(heads: MedusaHeads, info: GgufInfo) -> GgufInfo:
    """Heads as a model without layers, so that their weights are counted."""
    return replace(
        info, name="the heads", bytes=heads.bytes, block_count=0, head_count_kv=(), full_layers=0
    )


def _output_rows(expression: DrafterExpression | None) -> int:
    """Rows of a pass of the target that have logits: with EAGLE those of its prompts too."""
    leaves = expression.leaves() if expression is not None else ()
    return PREFILL_CHUNK if any(leaf.kind == "eagle" for leaf in leaves) else OUTPUT_ROWS


def eagle_info(layer: EagleLayer, target: Path, info: GgufInfo) -> GgufInfo:
    """An EAGLE layer as a model of one layer, the target's output matrix and the states it keeps.

    A state has as many bytes as the keys and values of hidden / kv_heads / 4 more values a head.
    """
    shape = layer.shape
    weights = sum(one.weight.rows * one.weight.shape[1] for one in layer.linears)
    states = shape.hidden // shape.kv_heads  # 4 bytes each, of which the KV cache counts 2
    return replace(
        info,
        path=str(layer.file),
        name="the EAGLE layer",
        bytes=weights * 17 // 16 + target_ends(target)[1].raw.nbytes,
        block_count=1,
        feed_forward_length=shape.feed_forward,
        head_count=(shape.heads,),
        head_count_kv=(shape.kv_heads,),
        key_length=shape.head_width + states,
        value_length=shape.head_width + states,
        sliding_window=0,
        full_layers=1,
    )


def _check_trained_context(info: GgufInfo, context_length: int) -> tuple[str, ...]:
    trained = info.context_length
    if not trained or context_length <= trained:
        return ()
    return (
        f"a context of {context_length:,} is longer than the {trained:,} tokens that"
        f" {info.name} was made for: text beyond that may make no sense",
    )


def _check_memory(
    plans: list[ModelPlan], context_length: int, bytes_in_use: int
) -> tuple[str, ...]:
    device_bytes = sum(device.free_bytes for device in devices())
    fit = check_fit(plans, context_length, free_ram() + bytes_in_use, device_bytes)
    if fit.level == "refuse":
        raise MemoryLimitError(f"not loaded: {fit.message}")
    return (fit.message,) if fit.level == "warn" else ()
