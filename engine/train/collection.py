"""The parent's side of collecting: finds the corpus of a target, runs collectors, adds them up.

Nothing here loads native code; each collector is a process of its own (collect_child.py).
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.machine import physical_cores
from engine.models.gguf import inspect
from engine.models.locate import LocatedModel
from engine.train.child import Child, Message, Told, follow
from engine.train.settings import (
    CollectSettings,
    CorpusCard,
    read_card,
    read_layers,
    write_card,
)
from engine.train.shards import Counts, bytes_per_token, count, require_disk
from engine.train.work import HELDOUT_EVERY, SAMPLED_TEMPERATURE, SAMPLED_TOP_P

_CONTEXT_SHARE = 1.6
"""Tokens kept for each answer token: prompts are kept too."""

SAMPLING = (
    f"half greedy, half at temperature {SAMPLED_TEMPERATURE} and top-p {SAMPLED_TOP_P} "
    "of the 32 likeliest tokens"
)
HELDOUT = f"one document in {HELDOUT_EVERY}, by name, made with the target's own file"


@dataclass(frozen=True, slots=True)
class Preparation:
    """settings: with the weights that were chosen. workers: collectors to run. needed: bytes on
    disk, at most."""

    settings: CollectSettings
    workers: int
    needed: float


@dataclass(frozen=True, slots=True)
class CollectReport:
    """Answer tokens of the whole corpus; seconds of this run."""

    answer_tokens: int
    goal: int
    seconds: float
    seconds_left: float | None


def corpus_folder(training: Path, target: LocatedModel, sha256: str) -> Path:
    return training / f"{_file_name(target)}-{sha256[:8]}"


def _file_name(target: LocatedModel) -> str:
    """A catalogue id, else the file's name without what file systems do not like."""
    text = target.path.stem if "/" in target.id or "\\" in target.id else target.id
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)


def estimated_bytes(settings: CollectSettings, present: Counts, tokens_per_second: float) -> float:
    """What the answer tokens that are still missing will take on disk, at most.

    tokens_per_second: of all collectors, of short texts and without prompts: they will do less.
    """
    missing: float = max(0, settings.answer_tokens - present.answer_tokens)
    if settings.seconds is not None:
        missing = min(missing, settings.seconds * tokens_per_second)
    hidden = inspect(Path(settings.target)).embedding_length
    return missing * _CONTEXT_SHARE * bytes_per_token(hidden)


def prepare(
    settings: CollectSettings, target: LocatedModel, sha256: str, threads: int
) -> Preparation:
    """Makes the corpus's card if there is none. A collector a thread will run on a processor,
    since one thread need not wait for another.

    threads: 0 for one a physical core. Raises RunError when the disk has no room.
    """
    folder = Path(settings.folder)
    card = read_card(folder)
    chosen = _choose_weights(settings)
    workers = 1 if chosen["on_gpu"] else threads or physical_cores()
    fastest = workers * max(chosen["tokens_per_second"].values())
    needed = estimated_bytes(settings, count(folder), fastest)
    require_disk(folder, needed)
    settings = replace(settings, fast_copy=chosen["fast_copy"], sequences=chosen["sequences"])
    if card is None:
        card = _new_card(settings, target, sha256, chosen["tokens_per_second"])
    else:
        card = replace(
            card,
            text=tuple(dict.fromkeys((*card.text, *settings.text))),
            chats=card.chats or bool(settings.chats),
            prompt_files=tuple(dict.fromkeys((*card.prompt_files, *settings.prompts))),
        )
    write_card(folder, card)
    return Preparation(settings, workers, needed)


def _new_card(
    settings: CollectSettings,
    target: LocatedModel,
    sha256: str,
    tokens_per_second: dict[str, float],
) -> CorpusCard:
    info = inspect(target.path)
    return CorpusCard(
        target_name=target.name,
        target_sha256=sha256,
        architecture=info.architecture,
        hidden_size=info.embedding_length,
        layers=read_layers(info.block_count),
        generated_with=max(tokens_per_second, key=lambda name: tokens_per_second[name]),
        tokens_per_second=tokens_per_second,
        seed=settings.seed,
        prompt=settings.prompt,
        answer=settings.answer,
        sampling=SAMPLING,
        heldout=HELDOUT,
        text=settings.text,
        chats=bool(settings.chats),
        prompt_files=settings.prompts,
    )


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
    told: Told = queue.Queue()
    command, request = ("collect_child", "collect"), asdict(settings)
    children = [Child(command, request, told, number) for number in range(workers)]
    made = [0] * workers

    def hear(number: int, message: Message) -> None:
        made[number] = (message.get("progress") or message["result"])["answer_tokens"]
        report(_report(before, sum(made), settings, time.monotonic() - start))

    def is_over() -> bool:
        return should_stop() or before + sum(made) >= settings.answer_tokens

    follow(children, told, hear, is_over)
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


def _choose_weights(settings: CollectSettings) -> Message:
    told: Told = queue.Queue()
    answers: list[Message] = []
    child = Child(("collect_child", "prepare"), asdict(settings), told, 0)
    follow([child], told, lambda _number, message: answers.append(message), lambda: False)
    chosen = answers[-1]["result"]
    if not isinstance(chosen, dict):
        raise ValueError("not a choice of weights")
    return chosen
