"""Models that exist only on paper, and downloads that a test moves along."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from app.choices import ModelChoice, TrainedChoice
from engine.data.errors import DownloadError, IncompatiblePairError, UnknownModelError
from engine.data.loaded import LoadedSummary
from engine.data.request import LoadRequest
from engine.downloads.job import DownloadSnapshot
from engine.downloads.transfer import RepoFile
from engine.models.entry import HubSource, ModelEntry
from engine.train.forecast import Forecast, TrainingBudget
from engine.train.training import HeadKind, TrainSettings

MODELS = (
    ModelChoice("starter", "SmolLM2 135M Instruct", 98_362_432, True, "Q4_1"),
    ModelChoice(
        "coder",
        "Qwen2.5 Coder 1.5B Instruct",
        1_117_320_768,
        True,
        "Q4_K_M",
        True,
        ("coder-small",),
    ),
    ModelChoice("coder-small", "Qwen2.5 Coder 0.5B Instruct", 491_400_064, True, "Q4_K_M"),
    ModelChoice("tiny-draft", "SmolLM2 Draft 30M", 22_000_000, True, "Q8_0"),
    ModelChoice("large", "Qwen3 8B", 5_027_783_488, False, "Q4_K_M"),
    ModelChoice("broken", "A broken file", 12_000_000, True),
)
FAMILIES = {"starter": "smol", "tiny-draft": "smol", "coder": "qwen", "coder-small": "qwen"}


class FakeModels:
    """A `app.model_service.ModelService` without files."""

    def models(self) -> tuple[ModelChoice, ...]:
        return MODELS

    def obstacle(self, target: str, drafter: str) -> str | None:
        if FAMILIES.get(target) == FAMILIES.get(drafter):
            return None
        return "vocabulary 151,936 against 49,152"

    def note(self, target: str, drafter: str) -> str:
        return ""

    def trained(self, target: str) -> tuple[TrainedChoice, ...]:
        reason = None if target == "starter" else "trained for starter.gguf"
        return (TrainedChoice("eagle3:waits", "EAGLE-3 waits", "4 MB", reason),)

    def memory_warning(
        self, request: LoadRequest, drafters: tuple[str, ...], loaded: LoadedSummary | None
    ) -> str:
        if request.target == "coder":
            return "needs 11.4 GB of 12.0 GB free: little is left for other programs"
        return ""

    def hidden_size(self, model: str) -> int:
        return {"starter": 576, "coder": 1536}.get(model, 0)

    def training_forecast(
        self, kind: HeadKind, target: str, budget: TrainingBudget, settings: TrainSettings
    ) -> Forecast | None:
        if target == "gemma" and kind != "medusa":
            raise IncompatiblePairError(f"gemma.gguf cannot be trained for {kind}")
        if target != "starter":
            return None
        pays = kind == "eagle3"
        return Forecast(kind, budget.tokens or 40_000, (0.31,), int(pays), 1.2 if pays else 1.0)

    def training_bytes(self, target: str, tokens: int) -> int:
        return tokens * self.hidden_size(target) * 16

    def repository_files(self, repository: str) -> tuple[RepoFile, ...]:
        if repository != "owner/repo":
            raise DownloadError(f"{repository}: no such repository on the Hub")
        return (
            RepoFile("model-Q4_K_M.gguf", 4_920_000_000, "Q4_K_M"),
            RepoFile("model-Q8_0.gguf", 8_540_000_000, "Q8_0"),
        )

    def catalogue_entry(self, model: str) -> ModelEntry:
        found = next((one for one in MODELS if one.id == model), None)
        if found is None:
            raise UnknownModelError(f"{model} is not in the catalogue")
        return ModelEntry(model, found.name, "", "", "", "", "", bytes=found.bytes)

    def repository_file(self, repository: str, name: str) -> HubSource:
        return HubSource(repository, name)


class FakeDownloads:
    """Downloads that stop half way, as `app.model_downloads.ModelDownloads`."""

    def __init__(self) -> None:
        self._downloads: dict[str, DownloadSnapshot] = {}
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def start(self, wanted: ModelEntry | HubSource) -> DownloadSnapshot:
        if isinstance(wanted, HubSource):
            id_, name, total = f"{wanted.repo}/{wanted.file}", wanted.file, 4_920_000_000
        else:
            id_, name, total = wanted.id, wanted.name, wanted.bytes
        self._add(DownloadSnapshot(id_, name, "running", 0, total))
        return self._row(id_)

    def jobs(self) -> tuple[DownloadSnapshot, ...]:
        return tuple(self._downloads.values())

    def cancel(self, id_: str) -> None:
        self._add(replace(self._row(id_), state="cancelled", message="cancelled"))

    def retry(self, id_: str) -> DownloadSnapshot:
        self._add(replace(self._row(id_), state="running", bytes=0, message=""))
        self._advance(id_)
        return self._row(id_)

    def dismiss(self, id_: str) -> None:
        del self._downloads[self._row(id_).id]
        self._changed()

    def subscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def close(self) -> None:
        pass

    def _row(self, download: str) -> DownloadSnapshot:
        row = self._downloads.get(download)
        if row is None:
            raise UnknownModelError(f"there is no download {download!r}")
        return row

    def _advance(self, download: str) -> None:
        row = self._downloads[download]
        half = row.total // 2
        self._add(replace(row, bytes=half, bytes_per_second=8.4e6, seconds_left=half / 8.4e6))

    def _add(self, download: DownloadSnapshot) -> None:
        with self._lock:
            self._downloads[download.id] = download
        self._changed()
        if download.state == "running" and download.bytes == 0:
            self._advance(download.id)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()
