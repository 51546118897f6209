"""Puts the services behind the page together, and takes them apart in the right order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from app.chat import Chat
from app.choices import target_options
from app.context_meter import ContextMeter
from app.conversations import Conversations
from app.departures import Departures
from app.exchange.service import Exchange
from app.handlers import Services
from app.lab import Lab
from app.lab_actions import LabActions
from app.loading import Loading
from app.model_downloads import ModelDownloads
from app.model_service import ModelService
from app.names import Names
from app.preferences import PreferencesFile
from app.preset_actions import PresetActions
from app.presets import PresetsFile
from app.race import Race
from app.session import Sessions
from app.torch_install import Installer, TorchInstall
from app.training import Training
from app.training_child import COMMAND
from engine.data.errors import EngineError
from engine.data.folders import DataFolder
from engine.models.catalogue import set_aside_catalogue
from engine.process.protocols import Generator, Loader, LogSource, TokenCounter

log = logging.getLogger(__name__)


class Engine(Generator, Loader, LogSource, TokenCounter, Protocol):
    """What the interface needs of `engine.process.client.EngineClient`."""

    def close(self) -> None: ...


STARTER = "starter"


class Application:
    """The interface process without its web server. trainer: see app.training."""

    def __init__(
        self,
        engine: Engine,
        models: ModelService,
        downloads: ModelDownloads,
        folder: DataFolder,
        trainer: Sequence[str] = COMMAND,
        installer: Installer | None = None,
    ) -> None:
        self._engine = engine
        self._models = models
        self._downloads = downloads
        self._store = Conversations(folder.conversations_file)
        problem = set_aside_catalogue(folder)
        preferences = PreferencesFile(folder.preferences_file)
        sessions = Sessions()
        names = Names(lambda news: sessions.broadcast({"k": "names", "names": news}))
        loading = Loading(engine, preferences, sessions, names)
        training = Training(folder, sessions, trainer)
        presets = PresetsFile(folder.presets_file)
        chat = Chat(engine, self._store, preferences, sessions, names, presets)
        self.services = Services(
            chat=chat,
            loading=loading,
            preferences=preferences,
            sessions=sessions,
            models=models,
            downloads=downloads,
            log=engine,
            training=training,
            torch=TorchInstall(sessions, installer or Installer()),
            folder=folder,
            lab=LabActions(
                Lab(engine, loading, preferences, sessions),
                Race(engine, loading, preferences, sessions, names),
                models,
                self._store,
                names,
            ),
            problems=(problem,) if problem else (),
            departures=Departures(chat.leave),
            names=names,
            exchange=Exchange(self._store, chat.announce),
            presets=PresetActions(presets, chat, preferences, loading),
            meter=ContextMeter(engine, chat),
        )

    def load_last(self) -> None:
        """Start loading what was used last, else the starter with n-gram lookup, if it is here."""
        preferences = self.services.preferences.current
        target, drafters = preferences.target or STARTER, preferences.drafters
        if preferences.target is None:
            drafters = ("ngram",)
        try:
            models = self._models.models()
        except EngineError as error:  # models.toml, say: the page tells of it as often as it asks
            log.warning("nothing is loaded: %s", error)
            return
        self.services.names.learn(target_options(models))
        if target in {model.id for model in models if model.downloaded}:
            self.services.loading.start(target, drafters)

    def close(self) -> None:
        self.services.departures.close()
        self.services.chat.close()
        self.services.training.close()
        self.services.torch.close()
        self.services.lab.close()
        self._downloads.close()
        self._engine.close()
        self._store.close()
