"""Downloads of models: what a page may ask of them, and how every page hears of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

from app.model_service import ModelService
from app.requests import BadRequestError
from app.session import Session, Sessions
from app.throttle import Throttle
from engine.downloads.job import DownloadSnapshot
from engine.models.entry import HubSource, ModelEntry

Arguments = dict[str, Any]


class ModelDownloads(Protocol):
    """The part of `engine.downloads.manager.Downloads` that the page needs."""

    def start(self, wanted: ModelEntry | HubSource) -> DownloadSnapshot: ...

    def jobs(self) -> tuple[DownloadSnapshot, ...]: ...

    def cancel(self, id_: str) -> None: ...

    def retry(self, id_: str) -> DownloadSnapshot: ...

    def dismiss(self, id_: str) -> None:
        """Take an ended download off the list."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """The listener is called, from any thread, whenever a download has changed."""
        ...

    def close(self) -> None: ...


class DownloadActions:
    """models: knows where each model comes from."""

    def __init__(self, downloads: ModelDownloads, models: ModelService, sessions: Sessions) -> None:
        self._downloads = downloads
        self._models = models
        self._sessions = sessions
        downloads.subscribe(Throttle(self._announce).request)

    def table(self) -> dict[str, Callable[[Session, Arguments], Any]]:
        return {"repository": self._repository, "fetch": self._fetch, "download": self._step}

    def state(self) -> list[dict[str, Any]]:
        """What a page draws of them."""
        return [
            asdict(download) | {"path": None if download.path is None else str(download.path)}
            for download in self._downloads.jobs()
        ]

    def _announce(self) -> None:
        self._sessions.broadcast({"k": "downloads", "items": self.state()})

    def _repository(self, session: Session, arguments: Arguments) -> Any:
        files = self._models.repository_files(arguments["repository"])
        return [asdict(file) for file in files]

    def _fetch(self, session: Session, arguments: Arguments) -> None:
        model, repository, name = (arguments[key] for key in ("model", "repository", "name"))
        if model is not None:
            self._downloads.start(self._models.catalogue_entry(model))
        elif repository is not None and name is not None:
            self._downloads.start(self._models.repository_file(repository, name))
        else:
            raise BadRequestError("name a model, or a repository and a file")

    def _step(self, session: Session, arguments: Arguments) -> None:
        downloads, download = self._downloads, arguments["id"]
        if arguments["step"] == "retry":
            downloads.retry(download)
        elif arguments["step"] == "cancel":
            downloads.cancel(download)
        else:
            downloads.dismiss(download)
