"""Typed messages between the interface process and the engine process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.control.advice import BreakEven
from engine.data.events import RunEvent
from engine.data.request import GenerateRequest, LoadRequest
from engine.skip.report import SkipReport, SkipSearchRequest


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model as it is loaded. bytes: weights on disk; kv_bytes: its KV cache."""

    id: str
    path: str
    architecture: str
    description: str
    bytes: int
    kv_bytes: int
    context_length: int
    vocabulary_size: int


@dataclass(frozen=True, slots=True)
class DrafterSummary:
    """A loaded drafter: its name in traces, what it costs in memory, and what it is.

    members: of an ensemble; its memory is theirs.
    """

    name: str
    description: str
    memory_bytes: int
    members: tuple[DrafterSummary, ...] = ()

    def by_member(self) -> dict[str, int]:
        """Memory of every drafter that is not made of others, by name."""
        if not self.members:
            return {self.name: self.memory_bytes}
        return {name: size for one in self.members for name, size in one.by_member().items()}


@dataclass(frozen=True, slots=True)
class DraftSpeed:
    """One drafter's seconds: of a draft step, of a token of text taken in before drafting.

    advice: one sentence on whether it can pay on this machine.
    """

    name: str
    step: float
    token: float
    break_evens: tuple[BreakEven, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class SpeedSummary:
    """What was measured of the loaded models. passes: seconds of T(n) by width n; prefill: prompt
    tokens per second.

    predicted: expected speed-up of automatic drafting over plain decoding, by kind of text
    ("greedy", "sampled"), from what the last replies gained. plain_attention: without llama.cpp's
    fused kernel.
    """

    passes: Mapping[int, float]
    prefill: float
    threads: int
    repack: bool
    drafters: tuple[DraftSpeed, ...] = ()
    predicted: Mapping[str, float] = field(default_factory=dict)
    plain_attention: bool = False


@dataclass(frozen=True, slots=True)
class LoadedSummary:
    """What is in memory after a load. strict_width: widest bit-identical pass, None if fast.

    speed: None where nothing was measured, because nothing drafts.
    """

    request: LoadRequest
    target: ModelSummary
    drafters: tuple[DrafterSummary, ...]
    has_chat_template: bool
    strict_width: int | None
    notices: tuple[str, ...] = ()
    speed: SpeedSummary | None = None

    @property
    def memory_bytes(self) -> int:
        """Weights and KV caches of all that is loaded."""
        drafters = sum(drafter.memory_bytes for drafter in self.drafters)
        return self.target.bytes + self.target.kv_bytes + drafters

    @property
    def predicted(self) -> Mapping[str, float]:
        """Expected speed-ups by kind of text, as far as they are known."""
        return self.speed.predicted if self.speed is not None else {}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of llama.cpp's log. number grows by one a line; level as in logging."""

    number: int
    level: int
    text: str


# To the engine process


@dataclass(frozen=True, slots=True)
class Load:
    id: int
    request: LoadRequest


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Measure thoroughly what request names, choose its setup, and load it."""

    id: int
    request: LoadRequest


@dataclass(frozen=True, slots=True)
class Generate:
    id: int
    request: GenerateRequest


@dataclass(frozen=True, slots=True)
class Cancel:
    id: int


@dataclass(frozen=True, slots=True)
class Unload:
    id: int


@dataclass(frozen=True, slots=True)
class MakeModel:
    """Write a copy of a model: without the layers in `skip`, or in another weight format.

    Exactly one of skip (an empty tuple: the default choice) and file_format is given.
    """

    id: int
    source: str
    skip: tuple[int, ...] | None
    file_format: str | None


@dataclass(frozen=True, slots=True)
class SearchLayers:
    """Find the layers that a drafter made of the model can do without. Cancel keeps the best."""

    id: int
    request: SkipSearchRequest


@dataclass(frozen=True, slots=True)
class Shutdown:
    pass


Command = Load | Calibrate | Generate | Cancel | Unload | MakeModel | SearchLayers | Shutdown


# From the engine process


@dataclass(frozen=True, slots=True)
class Ready:
    """The library is loaded and probed. symbols: extension symbol name to availability."""

    pid: int
    library_version: str
    symbols: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """fraction in 0..1 of the step that `label` names ("reading qwen-coder-1.5b", ...)."""

    id: int
    label: str
    fraction: float


@dataclass(frozen=True, slots=True)
class Done:
    """The command ended well. loaded: the new state after Load and Unload."""

    id: int
    loaded: LoadedSummary | None


@dataclass(frozen=True, slots=True)
class RunUpdate:
    id: int
    event: RunEvent


@dataclass(frozen=True, slots=True)
class Failed:
    """The command failed. kind: a class name of engine.data.errors; loaded: what is in memory now."""

    id: int
    kind: str
    message: str
    loaded: LoadedSummary | None


@dataclass(frozen=True, slots=True)
class Made:
    """The file that MakeModel wrote, or found already there."""

    id: int
    path: str


@dataclass(frozen=True, slots=True)
class LayersFound:
    """What SearchLayers found, as far as it came."""

    id: int
    report: SkipReport


@dataclass(frozen=True, slots=True)
class LogLines:
    lines: tuple[LogLine, ...]


Reply = Ready | LoadProgress | Done | RunUpdate | Failed | Made | LayersFound | LogLines
