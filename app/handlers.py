"""What the page may ask. Every request is one JSON object and every answer another.

{"session", "action", "arguments"} -> {"result", "attached"} or {"error": {"kind", "message"}}
attached tells whether a stream brings the page its events; if not, the page opens one.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from app.advice import Advisor
from app.attachments.stored import StoredFiles
from app.branch_actions import branch_actions
from app.chat import FIRST_PAGE, Chat
from app.chat_file import advice
from app.choices import drafter_options, target_options
from app.chosen import chosen_json, expressions
from app.context_meter import ContextMeter
from app.departures import Departures
from app.exchange.service import Exchange
from app.lab_actions import LabActions
from app.loading import Loading
from app.model_downloads import DownloadActions, ModelDownloads
from app.model_service import ModelService
from app.names import Names
from app.preferences import PreferencesFile
from app.preset_actions import PresetActions
from app.requests import (
    BadRequestError,
    checked_request,
    checked_table,
    file_list,
    identity,
    nullable,
    whole,
)
from app.session import Session, Sessions
from app.settings_form import FIELDS
from app.shelf_actions import ShelfActions
from app.torch_install import TorchInstall
from app.training import Training
from app.training_options import (
    delete_data,
    forecast_answer,
    require_room,
    training_options,
)
from app.training_request import absolute, training_request
from engine.data.documents import fit_to_send
from engine.data.errors import BadOptionError, EngineError
from engine.data.folders import DataFolder
from engine.data.shown import shown
from engine.models.catalogue import Catalogue, add_folder, remove_folder
from engine.process.protocols import LogSource

Arguments = dict[str, Any]
Action = Callable[[Session, Arguments], Any]
log = logging.getLogger(__name__)
MOST = 100_000
"""Conversations in one answer."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything behind the page. problems: files that were wrong at the start."""

    chat: Chat
    loading: Loading
    preferences: PreferencesFile
    sessions: Sessions
    models: ModelService
    downloads: ModelDownloads
    log: LogSource
    training: Training
    torch: TorchInstall
    folder: DataFolder
    lab: LabActions
    departures: Departures
    names: Names
    exchange: Exchange
    presets: PresetActions
    meter: ContextMeter
    advisor: Advisor
    files: StoredFiles
    problems: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """What was wrong with stored files, for the user."""
        parts = (self.chat, self.preferences, self.presets, self.training)
        found = (part.problem for part in parts)
        return " ".join(filter(None, (*self.problems, *found))) or None


class Handlers:
    """One short method for each action; the table below is the whole interface."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._downloads = DownloadActions(services.downloads, services.models, services.sessions)
        self._actions: dict[str, Action] = {
            "open": self._open,
            "send": self._send,
            "count": self._count,
            "stop": self._stop,
            "answer_now": self._answer_now,
            "advise": self._advise,
            "save_again": self._save_again,
            "search": self._search,
            "rename": self._rename,
            "delete": self._delete,
            "restore": self._restore,
            "options": self._options,
            "memory": self._memory,
            "load": self._load,
            "load_stop": self._stop_load,
            "settings": self._settings,
            "view": self._view,
            "folders": self._folders,
            "log": self._log,
            "train_options": self._train_options,
            "train_forecast": self._train_forecast,
            "train": self._train,
            "train_step": self._train_step,
            "train_delete": self._train_delete,
            **branch_actions(services.chat.branches, services.chat.continuing),
            **self._downloads.table(),
            **services.torch.table(),
            **services.presets.table(),
            **ShelfActions(services.chat).table(),
            **services.lab.table(),
        }

    @property
    def actions(self) -> frozenset[str]:
        return frozenset(self._actions)

    def hello(self, payload: Any = None) -> dict[str, Any]:
        """A page opens: its session and everything it draws first."""
        services = self._services
        told = payload if isinstance(payload, dict) else {}
        before = told.get("before")
        session = services.sessions.create(before if isinstance(before, str) else None)
        try:
            conversation = nullable(identity)("conversation", told.get("conversation"))
        except BadRequestError:
            conversation = None  # an address that was typed wrongly opens a new chat
        hello = {
            "session": session.id,
            "chat": services.chat.open(session, conversation),
            "conversations": services.chat.conversations(),
            "engine": services.loading.state(),
            "preferences": self._preferences(),
            "problem": services.problem,
            "fields": [asdict(field) for field in FIELDS],
            "downloads": self._downloads.state(),
            "training": services.training.state(),
            "torch": services.torch.state(),
            **services.lab.states(),
        }
        return fit_to_send(hello)

    def resync(self, payload: Any) -> dict[str, Any]:
        """Events from a number on; the page asks now and then, and when it missed some."""
        session = self._session(payload)
        if session is None:
            return {"unknown": True}
        try:
            return fit_to_send(session.since(_wanted(payload)))
        except BadRequestError as error:
            return _error("BadRequest", str(error))

    def followed(self, payload: Any) -> tuple[Session, int] | None:
        """The session whose events a page wants streamed, and from which number on."""
        session = self._session(payload)
        if session is None:
            return None
        try:
            return session, _wanted(payload)
        except BadRequestError:
            return None

    def call(self, payload: Any) -> dict[str, Any]:
        session = self._session(payload)
        if session is None:
            return _error("SessionLost", "The page has lost its session.")
        try:
            action, arguments = checked_request(payload)
            result = self._actions[action](session, arguments)
            return fit_to_send({"result": result, "attached": session.attached})
        except BadRequestError as error:
            log.warning("a request that no page makes: %s", error)
            return _error("BadRequest", str(error))
        except EngineError as error:
            return _error(type(error).__name__, str(error))
        except sqlite3.Error as error:
            log.exception("the conversation file failed")
            return _error(
                "StorageError", f"Chats cannot be read or written: {error} ({advice(error)})."
            )
        except OSError as error:
            log.exception("the data folder failed")
            reason = f"{error.strerror or error} ({error.filename or 'data folder'})"
            return _error("StorageError", f"A file cannot be read or written: {reason}.")

    def _session(self, payload: Any) -> Session | None:
        name = payload.get("session") if isinstance(payload, dict) else None
        session = self._services.sessions.get(name) if isinstance(name, str) else None
        if session is not None:
            session.touch()
        return session

    def _open(self, session: Session, arguments: Arguments) -> Any:
        return self._services.chat.open(session, arguments["conversation"], arguments["order"])

    def _send(self, session: Session, arguments: Arguments) -> Any:
        conversation, order = arguments["conversation"], arguments["order"]
        text, files = arguments["text"], file_list(arguments)
        return self._services.chat.send(session, conversation, text, files, order)

    def _count(self, session: Session, arguments: Arguments) -> Any:
        """How much of the context is taken if the text is sent; null where nothing is loaded."""
        return self._services.meter.count(
            arguments["conversation"], arguments["text"], file_list(arguments)
        )

    def _stop(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.stop(arguments["conversation"])

    def _answer_now(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.answer_now(arguments["conversation"])

    def _advise(self, session: Session, arguments: Arguments) -> Any:
        return self._services.advisor.of(arguments["conversation"])

    def _save_again(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.save_again()

    def _search(self, session: Session, arguments: Arguments) -> Any:
        wanted = arguments["limit"]
        limit = FIRST_PAGE if wanted is None else min(max(wanted, 1), MOST)
        closed = arguments["closed"] or []
        return self._services.chat.conversations(arguments["text"], limit, closed)

    def _rename(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.rename(arguments["conversation"], arguments["title"])

    def _delete(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.delete(arguments["conversation"])

    def _restore(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.restore(arguments["conversation"])

    def _options(self, session: Session, arguments: Arguments) -> Any:
        service, target = self._services.models, arguments["target"]
        models, trained = service.models(), () if target is None else service.trained(target)
        targets = target_options(models)
        drafters = drafter_options(models, target, service.obstacle, trained, service.note)
        self._services.names.learn([*targets, *drafters])
        return {
            "targets": [asdict(option) for option in targets],
            "drafters": [asdict(option) for option in drafters],
        }

    def _memory(self, session: Session, arguments: Arguments) -> Any:
        """A warning about memory to confirm before a load, "" if there is none."""
        target, drafters = _pair(arguments)
        request = self._services.preferences.current.settings.load_request(target, drafters)
        loaded = self._services.loading.loaded
        return self._services.models.memory_warning(request, drafters, loaded)

    def _load(self, session: Session, arguments: Arguments) -> None:
        target, drafters = _pair(arguments)
        self._services.lab.require_idle()
        self._services.loading.start(target, drafters, waits=self._services.chat.is_writing)

    def _stop_load(self, session: Session, arguments: Arguments) -> None:
        self._services.loading.stop()

    def _settings(self, session: Session, arguments: Arguments) -> Any:
        settings = self._services.preferences.set_settings(arguments["changes"])
        return asdict(settings)

    def _view(self, session: Session, arguments: Arguments) -> Any:
        return asdict(self._services.preferences.set_view(arguments["changes"]))

    def _folders(self, session: Session, arguments: Arguments) -> list[str]:
        """The user's model folders after the step "add" or "remove" of one, "list" for neither."""
        steps = {"add": add_folder, "remove": remove_folder, "list": None}
        act, folder = steps[arguments["step"]], self._services.folder
        if act is not None:
            act(folder, absolute(arguments["path"] or ""))
        return [str(path) for path in Catalogue.load(folder).folders]

    def _log(self, session: Session, arguments: Arguments) -> Any:
        lines = self._services.log.log_lines(arguments["after"])
        return [asdict(line) for line in lines]

    def _train_options(self, session: Session, arguments: Arguments) -> Any:
        return self._training_options()

    def _train_forecast(self, session: Session, arguments: Arguments) -> Any:
        return forecast_answer(arguments, self._services.models)

    def _train(self, session: Session, arguments: Arguments) -> None:
        request = training_request(arguments)
        require_room(request, self._services.models, self._services.folder)
        self._services.training.start(request)

    def _train_step(self, session: Session, arguments: Arguments) -> None:
        training = self._services.training
        steps = {"stop": training.stop, "resume": training.resume, "dismiss": training.dismiss}
        steps[arguments["step"]]()

    def _train_delete(self, session: Session, arguments: Arguments) -> Any:
        self._services.training.require_idle()
        delete_data(self._services.folder, arguments["name"])
        return self._training_options()

    def _training_options(self) -> Any:
        services = self._services
        return training_options(services.models, services.folder, services.torch.problem())

    def _preferences(self) -> dict[str, Any]:
        """chosen: the drafters as the page shows them."""
        preferences = self._services.preferences.current
        return preferences.to_json() | {"chosen": chosen_json(preferences.drafters)}


def _wanted(payload: Any) -> int:
    """The number of the first event that is asked for. BadRequestError."""
    return whole("after", checked_table(payload).get("after"))


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": shown(message)}}


def _pair(arguments: Arguments) -> tuple[str, tuple[str, ...]]:
    if not arguments["target"]:
        raise BadOptionError("choose a target first")
    return arguments["target"], expressions(arguments["drafters"])
