"""A child process that collects or trains, from its parent's side: settings in, JSON lines out."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from engine.children.json_child import ChildPlan, JsonChild
from engine.children.json_lines import Message
from engine.data.errors import ERROR_KINDS, RunError

Told = queue.Queue[tuple[int, Message]]

FINISH = "finish"
"""The line on a child's stdin that asks for a result; without it, the end of stdin is a parent that
is gone."""

_ROOT = Path(__file__).resolve().parents[2]
_POLL_SECONDS = 0.3
_IDLE_SECONDS = 60.0
"""Without a word and without work: what collects or trains always computes, reads or writes."""
_CONCLUSIONS = frozenset({"error", "card", "result"})


class Child:
    """`python -m engine.train.MODULE ...`. Its messages go into a queue, its end is one of them.

    request: the JSON object that it gets first. number: comes with its messages.
    """

    def __init__(self, command: tuple[str, ...], request: Message, told: Told, number: int) -> None:
        module, *arguments = command
        self._child = JsonChild(
            ChildPlan(
                name=module,
                command=(sys.executable, "-m", f"engine.train.{module}", *arguments),
                folder=_ROOT,
                idle=_IDLE_SECONDS,
            )
        )
        self._told = told
        self._number = number
        self._finishing = False
        self._reader = threading.Thread(target=self._read, name=module, daemon=True)
        self._reader.start()
        self._child.send(json.dumps(request))

    def _read(self) -> None:
        """Whatever ends the reading, the last message says how it ended."""
        concluded = False
        try:
            for message in self._child.messages():
                concluded = concluded or not message.keys().isdisjoint(_CONCLUSIONS)
                self._told.put((self._number, message))
        finally:
            if not concluded:
                self._child.kill()
                words = self._child.exit_reason()
                text = f"the process that works on it ended unexpectedly: {words}"
                self._told.put((self._number, {"error": "EngineDiedError", "message": text}))

    @property
    def is_running(self) -> bool:
        return self._reader.is_alive()

    def finish(self) -> None:
        """Asks it to make a result of what it has, and to end."""
        if not self._finishing:
            self._finishing = True
            self._child.send(FINISH)
            self.end()

    def end(self) -> None:
        """Tells it that nobody waits for it: it keeps what it needs to go on, and ends."""
        self._finishing = True
        self._child.end_input()

    def suspend(self) -> None:
        """Tells it so even if it was asked to finish before."""
        self.end()
        self._child.terminate()

    def wait(self) -> None:
        self._reader.join()
        self._child.close()


def follow(
    children: list[Child],
    told: Told,
    hear: Callable[[int, Message], None],
    stop: Callable[[], bool],
) -> None:
    """Until all have ended; has them finish when stop() says so, and end when this is interrupted.

    EngineError of the first one that failed, once all have ended.
    """
    failures: list[Message] = []
    try:
        while any(child.is_running for child in children) or not told.empty():
            if stop():
                for child in children:
                    child.finish()
            try:
                number, message = told.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if "error" in message:
                failures.append(message)
            else:
                hear(number, message)
    except BaseException:
        for child in children:
            child.suspend()
        raise
    finally:
        for child in children:
            child.end()
            child.wait()
    if failures:
        kind = ERROR_KINDS.get(str(failures[0]["error"]), RunError)
        raise kind(str(failures[0]["message"]))
