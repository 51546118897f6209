"""A tiny target with contexts and drafters for it, for tests of drafters that read its states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self, Unpack

from engine.data.request import SamplingParams
from engine.drafters.base import Drafter, DraftRound, StepDrafter
from engine.drafters.build_context import BuildContext
from engine.drafters.features.capture import HiddenStateCapture
from engine.drafters.features.eagle_graph import EagleGraph, TargetEnds
from engine.drafters.features.eagle_layer import SPARE_CELLS, EagleDecoder
from engine.drafters.parse import parse_expression
from engine.heads.eagle_file import read_eagle
from engine.heads.pairing import target_ends
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.layers import FINAL_STATE
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from tests.eagle3_gguf import Eagle3Shape, write_eagle3
from tests.eagle_files import EagleChanges, EagleSizes, write_eagle
from tests.engine.conftest import THREADS
from tests.engine.draft_rounds import draft_round
from tests.engine.open_drafter import build_drafter
from tests.tiny_gguf import write_tiny_gguf

HIDDEN = 64
"""Of the targets."""

PROMPT = [72, 101, 108, 108, 111, 44, 32, 119]
EAGLE3_LAYERS = (1, 2, 4)
ARCHITECTURES = ("llama", "qwen2")
"""One hands out the inputs of its layers, of the other they are captured."""


class HeadBench:
    """path: of the target. layers: what its contexts hand out. kind: expression of the drafters."""

    def __init__(self, library: Library, path: Path, layers: Sequence[int], kind: str) -> None:
        self.path = path
        self.folder = path.parent
        self.library = library
        self.model = Model(path, ModelOptions(), library.log)
        self._layers = tuple(layers)
        self._kind = kind
        self._opened: list[Callable[[], None]] = [self.model.close]

    def close_later(self, close: Callable[[], None]) -> None:
        """In the opposite order of these calls, when the bench is left."""
        self._opened.append(close)

    def context(self, layers: Sequence[int] | None = None, length: int = 256) -> Context:
        inputs = self._layers if layers is None else tuple(layers)
        options = ContextOptions(length, 33, THREADS, max_leaves=16, layer_inputs=inputs)
        context = Context(self.model, options, AbortFlag())
        self.close_later(context.close)
        return context

    def drafter(self, weights: Path, context: Context, kind: str | None = None) -> Drafter:
        capture = HiddenStateCapture()
        expression = (kind or self._kind).format(weights)
        drafter = build_drafter(parse_expression(expression), self.build(capture))
        self.close_later(drafter.close)
        capture.connect(context)
        return drafter

    def step_drafter(self, weights: Path, context: Context, kind: str | None = None) -> StepDrafter:
        drafter = self.drafter(weights, context, kind)
        assert isinstance(drafter, StepDrafter)
        return drafter

    def build(self, capture: HiddenStateCapture) -> BuildContext:
        return BuildContext(
            self.model, 256, THREADS, 0, AbortFlag(), self.library.log, self.folder,
            lambda _label, _fraction: None, capture,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for close in reversed(self._opened):
            close()


class EagleBench(HeadBench):
    """Of a target with three layers."""

    def __init__(self, library: Library, folder: Path, architecture: str = "llama") -> None:
        path = write_tiny_gguf(folder / "target.gguf", layers=3, architecture=architecture)
        super().__init__(library, path, (FINAL_STATE,), "eagle:{}")

    def sizes(self, **changes: Unpack[EagleChanges]) -> EagleSizes:
        return replace(EagleSizes(HIDDEN, self.model.vocab.size), **changes)

    def layer(self, **changes: Unpack[EagleChanges]) -> Path:
        return write_eagle(self.folder / "layer", replace(self.sizes(likely=True), **changes))

    def decoder(
        self, layer: Path, kind: str = "F32", abort: AbortFlag | None = None
    ) -> EagleDecoder:
        flag = abort or AbortFlag()
        ends = TargetEnds(*target_ends(self.path))
        graph = EagleGraph(read_eagle(layer), ends, 700 + SPARE_CELLS, THREADS, kind)
        self.close_later(graph.close)
        return EagleDecoder(graph, lambda: flag.is_set)


class Eagle3Bench(HeadBench):
    """Of a target with five layers."""

    def __init__(self, library: Library, folder: Path, architecture: str) -> None:
        path = folder / f"{architecture}.gguf"
        write_tiny_gguf(path, layers=5, architecture=architecture)
        super().__init__(library, path, EAGLE3_LAYERS, "eagle3:{}")
        self._written = 0

    def heads(self, drafted: Collection[int] = ()) -> tuple[Path, Eagle3Shape]:
        """drafted: the tokens they know, none for all."""
        size = self.model.vocab.size
        shape = Eagle3Shape(self.model.hidden_size, size, EAGLE3_LAYERS, sorted(drafted))
        self._written += 1
        return write_eagle3(self.folder / f"heads-{self._written}.gguf", shape), shape


def argmax_round(text: Sequence[int], temperature: float = 0.0) -> DraftRound:
    return draft_round(text, sampling=SamplingParams(temperature=temperature), mode="argmax")
