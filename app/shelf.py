"""What the page needs to know of models: which there are, which fit together, downloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from app.choices import ModelChoice
from engine.request import LoadRequest

DownloadState = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a load fits into memory. level "warn": it may swap; "refuse": it cannot work."""

    level: Literal["ok", "warn", "refuse"]
    message: str


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A GGUF file of a Hub repository. quant: as its name says, such as Q4_K_M."""

    name: str
    bytes: int
    quant: str


@dataclass(frozen=True, slots=True)
class Download:
    """A row of the downloads list. total: 0 while unknown. seconds_left: None while unknown."""

    id: str
    name: str
    state: DownloadState
    bytes: int
    total: int
    bytes_per_second: float = 0.0
    seconds_left: float | None = None
    message: str = ""


class Shelf(Protocol):
    """All calls may block for a moment (files, network); errors are EngineErrors."""

    def models(self) -> tuple[ModelChoice, ...]: ...

    def obstacle(self, target: str, drafter: str) -> str | None:
        """Why a model cannot draft for a target, None if it can."""
        ...

    def fit(self, request: LoadRequest) -> Fit: ...

    def repository_files(self, repository: str) -> tuple[RepoFile, ...]: ...

    def fetch_model(self, model: str) -> None: ...

    def fetch_file(self, repository: str, name: str) -> None: ...

    def downloads(self) -> tuple[Download, ...]: ...

    def cancel(self, download: str) -> None: ...

    def retry(self, download: str) -> None: ...

    def dismiss(self, download: str) -> None:
        """Take an ended download off the list."""
        ...

    def on_change(self, listener: Callable[[], None]) -> None:
        """Called, from any thread, when downloads or models have changed."""
        ...

    def close(self) -> None: ...
