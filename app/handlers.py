"""What the page may ask. Every request is one JSON object and every answer another.

{"session", "action", "arguments"} -> {"result", "attached"} or {"error": {"kind", "message"}}
attached tells whether a stream brings the page its events; if not, the page opens one.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from app.chat import Chat
from app.choices import drafter_options, target_options
from app.lab_actions import LabActions
from app.loading import Loading
from app.model_service import ModelService
from app.preferences import PreferencesFile
from app.session import Session, Sessions
from app.settings_form import FIELDS
from app.throttle import Throttle
from app.training import Training
from app.training_options import (
    delete_data,
    forecast_answer,
    require_room,
    training_options,
)
from app.training_request import absolute, training_request
from engine.data.errors import BadOptionError, EngineError
from engine.data.folders import DataFolder
from engine.data.log_line import LogLine
from engine.models.catalogue import Catalogue, add_folder, remove_folder

Arguments = dict[str, Any]
Action = Callable[[Session, Arguments], Any]
log = logging.getLogger(__name__)


class LogSource(Protocol):
    def log_lines(self, after: int = 0) -> tuple[LogLine, ...]: ...


@dataclass(frozen=True, slots=True)
class Services:
    """Everything behind the page."""

    chat: Chat
    loading: Loading
    preferences: PreferencesFile
    sessions: Sessions
    shelf: ModelService
    log: LogSource
    training: Training
    folder: DataFolder
    lab: LabActions


class Handlers:
    """One short method for each action; the table below is the whole interface."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._actions: dict[str, Action] = {
            "open": self._open,
            "send": self._send,
            "stop": self._stop,
            "regenerate": self._regenerate,
            "edit": self._edit,
            "search": self._search,
            "rename": self._rename,
            "delete": self._delete,
            "restore": self._restore,
            "options": self._options,
            "memory": self._memory,
            "load": self._load,
            "settings": self._settings,
            "view": self._view,
            "repository": self._repository,
            "folders": self._folders,
            "fetch": self._fetch,
            "download": self._download,
            "log": self._log,
            "train_options": self._train_options,
            "train_forecast": self._train_forecast,
            "train": self._train,
            "train_step": self._train_step,
            "train_delete": self._train_delete,
            **services.lab.table(),
        }
        services.shelf.on_change(Throttle(self._announce_downloads).request)

    def hello(self, payload: Any = None) -> dict[str, Any]:
        """A page opens: its session and everything it draws first."""
        services = self._services
        session = services.sessions.create()
        conversation = payload.get("conversation") if isinstance(payload, dict) else None
        return {
            "session": session.id,
            "chat": services.chat.open(session, _identity(conversation)),
            "conversations": services.chat.conversations(),
            "engine": services.loading.state(),
            "preferences": services.preferences.current.to_json(),
            "problem": services.preferences.problem,
            "fields": [asdict(field) for field in FIELDS],
            "downloads": self._downloads(),
            "training": services.training.state(),
            **services.lab.states(),
        }

    def resync(self, payload: Any) -> dict[str, Any]:
        """Events from a number on; the page asks now and then, and when it missed some."""
        session = self._session(payload)
        if session is None:
            return {"unknown": True}
        return session.since(int(payload["after"]))

    def call(self, payload: Any) -> dict[str, Any]:
        session = self._session(payload)
        if session is None:
            return {"error": {"kind": "SessionLost", "message": "The page has lost its session."}}
        try:
            action = self._actions[payload["action"]]
            result = action(session, payload.get("arguments") or {})
            return {"result": result, "attached": session.attached}
        except EngineError as error:
            return {"error": {"kind": type(error).__name__, "message": str(error)}}
        except sqlite3.Error as error:
            log.exception("the conversation file failed")
            message = f"Conversations cannot be read or written: {error}."
            return {"error": {"kind": "StorageError", "message": message}}
        except OSError as error:
            log.exception("the data folder failed")
            reason = f"{error.strerror or error} ({error.filename or 'data folder'})"
            message = f"A file cannot be read or written: {reason}."
            return {"error": {"kind": "StorageError", "message": message}}
        except (KeyError, TypeError, ValueError) as error:
            log.warning("malformed request from the page", exc_info=True)
            return {"error": {"kind": "BadRequest", "message": f"malformed request: {error!r}"}}

    def _session(self, payload: Any) -> Session | None:
        if not isinstance(payload, dict):
            return None
        return self._services.sessions.get(str(payload.get("session")))

    def _open(self, session: Session, arguments: Arguments) -> Any:
        return self._services.chat.open(session, _identity(arguments["conversation"]))

    def _send(self, session: Session, arguments: Arguments) -> Any:
        conversation = _identity(arguments["conversation"])
        return self._services.chat.send(session, conversation, str(arguments["text"]))

    def _stop(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.stop(int(arguments["conversation"]))

    def _regenerate(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.regenerate(session, int(arguments["message"]))

    def _edit(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.edit(session, int(arguments["message"]), str(arguments["text"]))

    def _search(self, session: Session, arguments: Arguments) -> Any:
        return self._services.chat.conversations(str(arguments["text"]))

    def _rename(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.rename(int(arguments["conversation"]), str(arguments["title"]))

    def _delete(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.delete(int(arguments["conversation"]))

    def _restore(self, session: Session, arguments: Arguments) -> None:
        self._services.chat.restore(int(arguments["conversation"]))

    def _options(self, session: Session, arguments: Arguments) -> Any:
        shelf, target = self._services.shelf, arguments.get("target")
        models, trained = shelf.models(), () if target is None else shelf.trained(target)
        drafters = drafter_options(models, target, shelf.obstacle, trained, shelf.note)
        return {
            "targets": [asdict(option) for option in target_options(models)],
            "drafters": [asdict(option) for option in drafters],
        }

    def _memory(self, session: Session, arguments: Arguments) -> Any:
        """A warning about memory to confirm before a load, "" if there is none."""
        target, drafters = _pair(arguments)
        request = self._services.preferences.current.settings.load_request(target, drafters)
        in_use = self._services.loading.memory_in_use()
        return self._services.shelf.memory_warning(request, drafters, in_use)

    def _load(self, session: Session, arguments: Arguments) -> None:
        target, drafters = _pair(arguments)
        self._services.lab.require_idle()
        self._services.loading.start(target, drafters, waits=self._services.chat.is_writing)

    def _settings(self, session: Session, arguments: Arguments) -> Any:
        settings = self._services.preferences.set_settings(dict(arguments["changes"]))
        return asdict(settings)

    def _view(self, session: Session, arguments: Arguments) -> Any:
        return asdict(self._services.preferences.set_view(dict(arguments["changes"])))

    def _repository(self, session: Session, arguments: Arguments) -> Any:
        files = self._services.shelf.repository_files(str(arguments["repository"]))
        return [asdict(file) for file in files]

    def _folders(self, session: Session, arguments: Arguments) -> list[str]:
        """The user's model folders after the step "add" or "remove" of one, "list" for neither."""
        steps = {"add": add_folder, "remove": remove_folder, "list": None}
        act, folder = steps[arguments["step"]], self._services.folder
        if act is not None:
            act(folder, absolute(str(arguments["path"])))
        return [str(path) for path in Catalogue.load(folder).folders]

    def _fetch(self, session: Session, arguments: Arguments) -> None:
        if "model" in arguments:
            self._services.shelf.fetch_model(str(arguments["model"]))
        else:
            self._services.shelf.fetch_file(str(arguments["repository"]), str(arguments["name"]))

    def _download(self, session: Session, arguments: Arguments) -> None:
        shelf, download = self._services.shelf, str(arguments["id"])
        steps = {"cancel": shelf.cancel, "retry": shelf.retry, "dismiss": shelf.dismiss}
        steps[arguments["step"]](download)

    def _log(self, session: Session, arguments: Arguments) -> Any:
        lines = self._services.log.log_lines(int(arguments["after"]))
        return [asdict(line) for line in lines]

    def _train_options(self, session: Session, arguments: Arguments) -> Any:
        return training_options(self._services.shelf, self._services.folder)

    def _train_forecast(self, session: Session, arguments: Arguments) -> Any:
        return forecast_answer(arguments, self._services.shelf)

    def _train(self, session: Session, arguments: Arguments) -> None:
        request = training_request(arguments)
        require_room(request, self._services.shelf, self._services.folder)
        self._services.training.start(request)

    def _train_step(self, session: Session, arguments: Arguments) -> None:
        training = self._services.training
        steps = {"stop": training.stop, "resume": training.resume, "dismiss": training.dismiss}
        steps[arguments["step"]]()

    def _train_delete(self, session: Session, arguments: Arguments) -> Any:
        self._services.training.require_idle()
        delete_data(self._services.folder, str(arguments["name"]))
        return training_options(self._services.shelf, self._services.folder)

    def _downloads(self) -> list[dict[str, Any]]:
        return [
            asdict(download) | {"path": None if download.path is None else str(download.path)}
            for download in self._services.shelf.downloads()
        ]

    def _announce_downloads(self) -> None:
        self._services.sessions.broadcast({"k": "downloads", "items": self._downloads()})


def _identity(value: Any) -> int | None:
    return None if value is None else int(value)


def _pair(arguments: Arguments) -> tuple[str, tuple[str, ...]]:
    if not arguments.get("target"):
        raise BadOptionError("choose a target first")
    return str(arguments["target"]), tuple(str(item) for item in arguments["drafters"])
