"""Typed messages between the interface process and the engine process."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.data.device import Device
from engine.data.events import RunEvent
from engine.data.loaded import LoadedSummary
from engine.data.log_line import LogLine
from engine.data.prompt_size import PromptSize
from engine.data.request import GenerateRequest, LoadRequest
from engine.skip.report import SkipReport, SkipSearchRequest

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
class AnswerNow:
    """The reply that is written under this number is to end its thought, and answer."""

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
class Count:
    """How many tokens the prompt of a request has, and each of the texts. Answered beside the
    other commands, also while one of them runs."""

    id: int
    request: GenerateRequest
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shutdown:
    pass


Command = (
    Load
    | Calibrate
    | Generate
    | Cancel
    | AnswerNow
    | Unload
    | MakeModel
    | SearchLayers
    | Count
    | Shutdown
)


# From the engine process


@dataclass(frozen=True, slots=True)
class Ready:
    """The library is loaded and probed. symbols: extension symbol name to availability. cards: the
    graphics cards that this build uses."""

    pid: int
    library_version: str
    symbols: dict[str, bool] = field(default_factory=dict)
    cards: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True)
class Alive:
    """Sent every second from the start on, whatever else the process does."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The command's turn has come."""

    id: int


@dataclass(frozen=True, slots=True)
class Noticed:
    """The command was told to stop, and is winding up, which may take its time."""

    id: int


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
    """The command failed. kind: a class name of engine.data.errors; loaded: what is there now."""

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
class Counted:
    """The answer to Count."""

    id: int
    size: PromptSize


@dataclass(frozen=True, slots=True)
class NotCounted:
    """Count has no answer. kind: a class name of engine.data.errors."""

    id: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class LogLines:
    lines: tuple[LogLine, ...]


EngineMessage = (
    Alive
    | Ready
    | Begun
    | Noticed
    | LoadProgress
    | Done
    | RunUpdate
    | Failed
    | Made
    | LayersFound
    | Counted
    | NotCounted
    | LogLines
)
