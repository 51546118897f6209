"""Keeps an engine process: starts it, hands it commands, and replaces it when it dies or hangs."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence

from engine.data.errors import EngineDiedError, EngineError, RequestError
from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from engine.data.log_line import LogLine
from engine.process.asides import Aside, Asides
from engine.process.engine_process import STOP_SECONDS, EngineProcess
from engine.process.messages import (
    Alive,
    AnswerNow,
    Begun,
    Cancel,
    Command,
    Count,
    Counted,
    Done,
    EngineMessage,
    Failed,
    Load,
    LogLines,
    NotCounted,
    Noticed,
    Ready,
    Shutdown,
)
from engine.process.overseer import Limits
from engine.process.protocols import ChangeListener
from engine.process.waiting import Pending, Waiter, Waiting

KEPT_LOG_LINES = 2000
MOST_SENT = 3
"""Times that a command is sent: an engine that dies without having begun it may die of it."""


class Keeper:
    """Thread-safe. lock: held by whoever hands over several commands that belong together.

    on_lost: called when what was loaded does not come back in a new process, with the reason.
    """

    def __init__(self, data_folder: DataFolder, limits: Limits | None = None) -> None:
        self._data_folder = data_folder
        self._limits = limits or Limits()
        self.lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._engine: EngineProcess | None = None
        self._waiting = Waiting()
        self._asides = Asides()
        self._loaded: LoadedSummary | None = None
        self._needs_reload = False
        self._is_patient = False
        self._is_closing = False
        self._log: deque[LogLine] = deque(maxlen=KEPT_LOG_LINES)
        self._log_count = 0
        self._listeners: list[ChangeListener] = []
        self.on_lost: Callable[[EngineError], None] = lambda _reason: None

    # State

    def on_change(self, listener: ChangeListener) -> None:
        """See engine.process.protocols.ModelHolder."""
        with self.lock:
            self._listeners.append(listener)

    @property
    def loaded(self) -> LoadedSummary | None:
        """What is in memory, or comes back with the next command after the engine died."""
        return self._loaded

    @property
    def pid(self) -> int | None:
        return self._engine.pid if self._engine is not None else None

    def pending(self) -> tuple[Pending, ...]:
        """What has not ended, what is being served first."""
        with self.lock:
            return self._waiting.all()

    def log_lines(self, after: int = 0) -> tuple[LogLine, ...]:
        """Native log lines with a number above `after`, oldest first."""
        with self.lock:
            return tuple(line for line in self._log if line.number > after)

    # The process

    def close(self) -> None:
        """Stops runs and the engine process; closing twice is safe."""
        with self.lock:
            engine = self._engine
            if engine is None:
                return
            self._is_closing = True
            for pending in self._waiting.all():
                if pending.run is not None:
                    pending.cancelled = True
                    engine.send(Cancel(pending.identity))
            engine.send(Shutdown())
            has_begun = engine.pid is not None and not self._waiting.reloads()
        try:
            engine.stop(STOP_SECONDS if has_begun else 0.0)
        finally:
            self._is_closing = False

    def running(self) -> EngineProcess:
        """The engine, started if there is none. EngineDiedError when it cannot be."""
        with self.lock:
            if self._engine is None:
                self._engine = EngineProcess(
                    self._data_folder,
                    self._dispatch,
                    self._on_exit,
                    self._limits,
                    patient=self._is_patient,
                )
            return self._engine

    def hand_over(self, pending: Pending) -> None:
        """To the engine that runs, with the lock held."""
        self.running().send(pending.command)
        self._waiting.add(pending)

    def new_number(self) -> int:
        return next(self._numbers)

    def forget_loaded(self) -> None:
        """It need not come back."""
        self._needs_reload = False

    def submit(self, make: Callable[[int], Command]) -> Waiter:
        """Hands over a command whose end someone waits for."""
        with self.lock:
            identity = self.new_number()
            waiter = Waiter(identity)
            self.hand_over(Pending(identity, make(identity), waiter=waiter))
            return waiter

    def ask_beside(self, make: Callable[[int], Count]) -> Aside:
        """Asks the engine that runs what it answers at once; it is not started for that."""
        with self.lock:
            if self._engine is None or self._loaded is None or self._needs_reload:
                raise RequestError("no model is loaded")
            command = make(self.new_number())
            aside = self._asides.add(command.id)
            self._engine.send(command)
            return aside

    def send_reload(self, run: int | None = None) -> None:
        """Brings back what a dead engine had loaded, for that run; with the lock held."""
        if not self._needs_reload or self._loaded is None:
            return
        identity = next(self._numbers)
        self.hand_over(Pending(identity, Load(identity, self._loaded.request), reload_for=run))
        self._needs_reload = False

    def cancel(self, identity: int) -> None:
        """What waits behind another ends at once; the engine will skip it."""
        with self.lock:
            cancelled = self._waiting.cancel(identity)
            if self._engine is None or cancelled == "unknown":
                return
            self._engine.send(Cancel(identity))
            if cancelled == "running":
                self._engine.expect_end(identity)

    def answer_now(self, identity: int) -> None:
        """The run is to end its thought; a process that takes it over is told again."""
        with self.lock:
            for pending in self._waiting.all():
                if pending.identity == identity and self._engine is not None:
                    pending.told_to_answer = True
                    self._engine.send(AnswerNow(identity))

    # What the engine tells

    def _dispatch(self, message: EngineMessage) -> None:
        with self.lock:
            before = self._loaded
            lost = self._take(message)
            is_changed = isinstance(message, Ready) or self._loaded != before
        if lost is not None:  # the reason first: whoever then looks at the change knows it
            self.on_lost(lost)
        if is_changed:
            self._tell_change()

    def _take(self, message: EngineMessage) -> EngineError | None:
        """Why what was loaded is lost, if this says so."""
        lost: EngineError | None = None
        if isinstance(message, Ready):
            self._is_patient = False
        elif isinstance(message, LogLines):
            self._keep_log(message)
        elif isinstance(message, Counted | NotCounted):
            self._asides.take(message)
        elif isinstance(message, Begun):
            if self._waiting.begin(message) and self._engine is not None:
                self._engine.expect_end(message.id)
        elif not isinstance(message, Alive | Noticed):
            if isinstance(message, Done | Failed):
                self._loaded = message.loaded
                lost = self._waiting.failed_reload(message)
            self._waiting.take(message)
        return lost

    def _tell_change(self) -> None:
        """Each listener in a thread of its own: one that fails or waits must not hold up what reads
        the engine, nor the other listeners."""
        with self.lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            threading.Thread(target=listener, name="engine-changed", daemon=True).start()

    def _keep_log(self, message: LogLines) -> None:
        """Numbers go on across engine restarts."""
        for line in message.lines:
            self._log_count += 1
            self._log.append(LogLine(self._log_count, line.level, line.text))

    def _on_exit(self, engine: EngineProcess) -> None:
        """The process is gone. What it had begun ends; the rest goes on in another one."""
        with self.lock:
            if self._engine is not engine:
                return
            self._engine = None
            self._is_patient = engine.was_slow_to_start
            left = self._waiting.give_up()
            is_lost = any(one.begun and one.is_reload for one in left)
            if is_lost:
                self._loaded = None  # it died of what it was to bring back, and would again
            self._needs_reload = self._loaded is not None
            again = [] if self._is_closing else [one for one in left if self._can_go_on(one)]
            ended = [one for one in left if one not in again and not one.is_reload]
            told = self._death_messages(engine)
            self._asides.give_up(EngineDiedError(told[0]))
            try:
                self._send_again(again)
                if engine.was_ended and not again and not self._is_closing:
                    self._prepare_next()
            except EngineDiedError:
                ended += self._waiting.give_up()
                ended += [one for one in again if one not in ended]
        for one in ended:
            one.end(EngineDiedError(told[one.run is not None]))
        if is_lost:
            self.on_lost(EngineDiedError(told[0]))
        self._tell_change()

    def _prepare_next(self) -> None:
        """After an engine that hung, what was loaded comes back before anyone asks for it; one that
        died of itself would perhaps die of it again."""
        if self._needs_reload:
            self.running()
            self.send_reload()

    def _can_go_on(self, pending: Pending) -> bool:
        """Not what the engine may have died of, nor what needs a model that it died of."""
        if pending.begun or pending.is_reload or pending.sent >= MOST_SENT:
            return False
        return pending.run is None or self._loaded is not None

    def _send_again(self, again: Sequence[Pending]) -> None:
        for pending in again:
            self.send_reload(pending.identity if pending.run is not None else None)
            pending.sent += 1
            self.hand_over(pending)
            if pending.told_to_answer:
                self.running().send(AnswerNow(pending.identity))

    def _death_messages(self, engine: EngineProcess) -> tuple[str, str]:
        """For commands, for runs."""
        died = f"the engine stopped unexpectedly: {engine.exit_reason()}"
        if self._loaded is None:
            advice = "choose a model and load it"
            return f"{died}; {advice}", f"{died}; the reply so far is kept, {advice}"
        return (
            f"{died}; what was loaded before comes back when needed",
            f"{died}; the reply so far is kept, send the next message",
        )
