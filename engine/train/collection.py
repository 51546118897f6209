"""The parent's side of collecting: finds the corpus of a target, runs collectors, adds them up.

Nothing here loads native code; each collector is a process of its own (collect_child.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from engine.errors import ERROR_KINDS, EngineDiedError, RunError
from engine.models.gguf import inspect
from engine.models.locate import LocatedModel
from engine.train.settings import (
    CollectSettings,
    CorpusCard,
    read_card,
    read_layers,
    write_card,
)
from engine.train.shards import Counts, bytes_per_token, count, require_disk
from engine.train.work import HELDOUT_EVERY, SAMPLED_TEMPERATURE, SAMPLED_TOP_P

_ROOT = Path(__file__).resolve().parents[2]
_POLL_SECONDS = 0.5
_CONTEXT_SHARE = 1.6
"""Tokens kept for each answer token: prompts are kept too."""

SAMPLING = (
    f"half greedy, half at temperature {SAMPLED_TEMPERATURE} and top-p {SAMPLED_TOP_P} "
    "of the 32 likeliest tokens"
)
HELDOUT = f"one document in {HELDOUT_EVERY}, by name, made with the target's own file"


@dataclass(frozen=True, slots=True)
class CollectReport:
    """Answer tokens of the whole corpus; seconds of this run."""

    answer_tokens: int
    goal: int
    seconds: float
    seconds_left: float | None


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def corpus_folder(training: Path, target: LocatedModel, sha256: str) -> Path:
    return training / f"{_file_name(target)}-{sha256[:8]}"


def _file_name(target: LocatedModel) -> str:
    """A catalogue id, else the file's name without what file systems do not like."""
    text = target.path.stem if "/" in target.id or "\\" in target.id else target.id
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)


def estimated_bytes(settings: CollectSettings, present: Counts) -> float:
    """What the answer tokens that are still missing will take on disk."""
    missing = max(0, settings.answer_tokens - present.answer_tokens)
    hidden = inspect(Path(settings.target)).embedding_length
    return missing * _CONTEXT_SHARE * bytes_per_token(hidden)


def prepare(
    settings: CollectSettings, target: LocatedModel, sha256: str, threads: int
) -> tuple[CollectSettings, int]:
    """Makes the corpus's card if there is none. The settings with the weights that were chosen,
    and how many collectors to run: one a thread, since one thread need not wait for another.

    threads: 0 for one a physical core. Raises RunError when the disk has no room.
    """
    folder = Path(settings.folder)
    require_disk(folder, estimated_bytes(settings, count(folder)))
    card = read_card(folder)
    chosen = _ask("prepare", settings)
    settings = replace(settings, fast_copy=chosen["fast_copy"], sequences=chosen["sequences"])
    if card is None:
        info = inspect(target.path)
        card = CorpusCard(
            target_name=target.name,
            target_sha256=sha256,
            architecture=info.architecture,
            hidden_size=info.embedding_length,
            layers=read_layers(info.block_count),
            generated_with="an F16 copy" if settings.fast_copy else "the target's file",
            tokens_per_second=chosen["tokens_per_second"],
            seed=settings.seed,
            prompt=settings.prompt,
            answer=settings.answer,
            sampling=SAMPLING,
            heldout=HELDOUT,
            text=settings.text,
            chats=bool(settings.chats),
        )
    else:
        text = dict.fromkeys((*card.text, *settings.text))
        card = replace(card, text=tuple(text), chats=card.chats or bool(settings.chats))
    write_card(folder, card)
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    return settings, 1 if chosen["on_gpu"] else threads or cores


def collect(
    settings: CollectSettings,
    workers: int,
    report: Callable[[CollectReport], None],
    should_stop: Callable[[], bool],
) -> Counts:
    """Runs collectors until the goal, the time or should_stop; what they wrote is kept in any case.

    EngineError of the first collector that failed, when all have ended.
    """
    folder = Path(settings.folder)
    before = count(folder).answer_tokens
    if before >= settings.answer_tokens:
        return count(folder)
    start = time.monotonic()
    told: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue()
    children = [_Child("collect", settings, told, number) for number in range(workers)]
    made = [0] * workers
    failures: list[dict[str, Any]] = []
    try:
        while any(child.is_running for child in children) or not told.empty():
            if should_stop() or before + sum(made) >= settings.answer_tokens:
                for child in children:
                    child.end()
            try:
                number, message = told.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if "error" in message:
                failures.append(message)
                continue
            made[number] = (message.get("progress") or message["done"])["answer_tokens"]
            report(_report(before, sum(made), settings, time.monotonic() - start))
    finally:
        for child in children:
            child.end()
            child.wait()
    if failures:
        raise _as_error(failures[0])
    return count(folder)


def _report(before: int, made: int, settings: CollectSettings, seconds: float) -> CollectReport:
    goal = settings.answer_tokens
    if not made:
        return CollectReport(before, goal, seconds, settings.seconds)
    left = max(0, goal - before - made) * seconds / made
    if settings.seconds is not None and settings.seconds - seconds < left:
        left = max(0.0, settings.seconds - seconds)
        goal = before + round(made * (1 + left / seconds))
    return CollectReport(before + made, goal, seconds, left)


class _Child:
    """A collector's process; its messages go into a queue, and its death is one of them."""

    def __init__(
        self,
        task: str,
        settings: CollectSettings,
        told: queue.Queue[tuple[int, dict[str, Any]]],
        number: int,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.train.collect_child", task],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            cwd=_ROOT,
            start_new_session=True,  # Ctrl-C in a terminal is the parent's to handle
        )
        self._told = told
        self._number = number
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._write(json.dumps(asdict(settings)) + "\n")

    def _write(self, text: str) -> None:
        if self._process.stdin is None:
            raise ValueError("the process has no input")
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # it has died, which the reader tells

    def _read(self) -> None:
        if self._process.stdout is None:
            raise ValueError("the process has no output")
        concluded = False
        for line in self._process.stdout:
            message = json.loads(line)
            concluded = concluded or "done" in message or "error" in message
            self._told.put((self._number, message))
        code = self._process.wait()
        if not concluded:
            words = f"the collecting process ended unexpectedly (exit code {code})"
            self._told.put((self._number, {"error": "EngineDiedError", "message": words}))

    @property
    def is_running(self) -> bool:
        return self._reader.is_alive()

    def end(self) -> None:
        """Asks it to write what it has and to end."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                return

    def wait(self) -> None:
        self._reader.join()


def _ask(task: str, settings: CollectSettings) -> dict[str, Any]:
    told: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue()
    child = _Child(task, settings, told, 0)
    try:
        _, message = told.get()
    finally:
        child.end()
        child.wait()
    if "error" in message:
        raise _as_error(message)
    content = message["done"]
    if not isinstance(content, dict):
        raise EngineDiedError("the collecting process answered something else")
    return content


def _as_error(message: dict[str, Any]) -> Exception:
    kind = ERROR_KINDS.get(str(message["error"]), RunError)
    return kind(str(message["message"]))
