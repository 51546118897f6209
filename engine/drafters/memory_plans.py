"""What the drafters of a load will take in memory, each as a model to be counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.data.errors import BadOptionError
from engine.drafters.build_heads import heads_path
from engine.drafters.expression import DrafterExpression, drafter_text
from engine.drafters.features.eagle_graph import LEVEL_ROWS
from engine.drafters.heads_argument import parse_heads
from engine.files.gguf import GgufInfo, inspect
from engine.files.measurements import Measurements
from engine.heads.eagle_file import EagleLayer
from engine.heads.medusa_file import MedusaHeads
from engine.heads.pairing import (
    require_eagle,
    require_eagle3,
    require_medusa,
    require_mtp,
    target_ends,
)
from engine.llama.draft_layer import ROWS_AT_ONCE
from engine.llama.native_context import PREFILL_CHUNK
from engine.models.memory import OUTPUT_ROWS, ModelPlan
from engine.models.pair import check_files, require_pair
from engine.models.token_map import require_shared
from engine.skip.choice import layers_to_skip


@dataclass(frozen=True, slots=True)
class DrafterMemory:
    """Reads files' headers, and refuses what does not go with the target."""

    target: Path
    info: GgufInfo
    gpu_layers: int
    find_model: Callable[[str], Path]
    measurements: Measurements

    def plans(self, expression: DrafterExpression) -> list[ModelPlan]:
        """Raises a RequestError or ModelFileError that says why a drafter cannot be used."""
        return [plan for leaf in expression.leaves() for plan in self._of(leaf)]

    def notes(self, expression: DrafterExpression) -> tuple[str, ...]:
        """What to know of drafters whose tokens are not quite the target's."""
        reports = {
            str(leaf): check_files(self.target, self.find_model(leaf.argument))
            for leaf in expression.leaves()
            if leaf.kind == "model"
        }
        return tuple(
            f"{name}: {note}" for name, one in reports.items() if one.common for note in one.notes
        )

    def _of(self, leaf: DrafterExpression) -> list[ModelPlan]:
        """A kind that is not named here brings no weights of its own."""
        match leaf.kind:
            case "model" | "tli":
                return [self._model(leaf)]
            case "early-exit":
                return [self._early_exit(leaf)]
            case "medusa" | "eagle" | "eagle3":
                return [self._heads(leaf)]
            case "mtp":
                require_mtp(self.info)
                return [ModelPlan(self.info, self.gpu_layers, ROWS_AT_ONCE, nextn=True)]
        return []

    def _model(self, leaf: DrafterExpression) -> ModelPlan:
        path = self.find_model(leaf.argument)
        if leaf.kind == "model":
            require_pair(self.target, path, drafter_text("tli", leaf.argument))
        else:
            require_shared(self.target, path)
        return ModelPlan(inspect(path), self.gpu_layers, output_rows=1, swa_full=False)

    def _early_exit(self, leaf: DrafterExpression) -> ModelPlan:
        layers = self.info.block_count
        skip = layers_to_skip(leaf.argument, self.target, layers, self.measurements)
        skipped = _skipped_info(skip, self.info)
        return ModelPlan(skipped, self.gpu_layers, output_rows=1, swa_full=False)

    def _heads(self, leaf: DrafterExpression) -> ModelPlan:
        name = parse_heads(leaf.kind, leaf.argument).file
        file = heads_path(leaf.kind, name, self.find_model)
        if leaf.kind == "medusa":
            heads = _heads_info(require_medusa(self.target, file), self.info)
            return ModelPlan(heads, output_rows=1, ubatch=1)
        if leaf.kind == "eagle":
            eagle = eagle_info(require_eagle(self.target, file), self.target, self.info)
            return ModelPlan(eagle, output_rows=LEVEL_ROWS, ubatch=LEVEL_ROWS)
        drafter = require_eagle3(self.target, file)
        return ModelPlan(drafter.info, self.gpu_layers, ROWS_AT_ONCE, ubatch=ROWS_AT_ONCE)


def target_rows(expression: DrafterExpression | None) -> int:
    """Rows of a pass of the target that have logits: with EAGLE those of its prompts too."""
    leaves = expression.leaves() if expression is not None else ()
    return PREFILL_CHUNK if any(leaf.kind == "eagle" for leaf in leaves) else OUTPUT_ROWS


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


def eagle_info(layer: EagleLayer, target: Path, info: GgufInfo) -> GgufInfo:
    """An EAGLE layer as a model of one layer, the target's output matrix and the states it keeps.

    Each token's state has 4 bytes a number, as two numbers of a KV cache.
    """
    shape = layer.shape
    weights = sum(one.weight.rows * one.weight.shape[1] for one in layer.linears)
    return replace(
        info,
        path=str(layer.file),
        name="the EAGLE layer",
        bytes=weights * 17 // 16 + target_ends(target)[1].raw.nbytes,
        block_count=1,
        feed_forward_length=shape.feed_forward,
        head_count=(shape.heads,),
        head_count_kv=(shape.kv_heads,),
        key_length=shape.head_width,
        value_length=shape.head_width,
        sliding_window=0,
        full_layers=1,
        nextn_layers=0,
        kv_values=(2 * shape.kv_heads * shape.head_width + 2 * shape.hidden,),
        sliding=(False,),
        state_values=(0,),
    )
