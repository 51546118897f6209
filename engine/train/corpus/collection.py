"""The parent's side of collecting: finds the corpus of a target, runs collectors, adds them up.

Nothing here loads native code; each collector is a process of its own (collect_child.py).
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.children.json_lines import Message
from engine.data.errors import RunError
from engine.data.machine import physical_cores
from engine.files.gguf import inspect
from engine.models.locate import LocatedModel
from engine.train.child import Child, Told, follow
from engine.train.corpus.disk import estimated_bytes, require_disk
from engine.train.corpus.settings import (
    CollectSettings,
    CorpusCard,
    read_card,
    read_layers,
    write_card,
)
from engine.train.corpus.shards import Counts, count
from engine.train.corpus.work import HELDOUT_EVERY, SAMPLED_TEMPERATURE, SAMPLED_TOP_P
from engine.train.told import answer_tokens

_PACE_SHARE = 0.4
"""What is left of the pace of short texts once prompts are read and texts have become longer."""

SAMPLING = (
    f"half greedy, half at temperature {SAMPLED_TEMPERATURE} and top-p {SAMPLED_TOP_P} "
    "of the 32 likeliest tokens"
)
HELDOUT = f"one document in {HELDOUT_EVERY}, by name, made with the target's own file"


@dataclass(frozen=True, slots=True)
class Preparation:
    """settings: with the weights that were chosen. needed: bytes on disk, at most. expected: answer
    tokens of this run. weights: their name. tokens_per_second: of all collectors."""

    settings: CollectSettings
    needed: float
    expected: int
    weights: str
    tokens_per_second: float


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


def prepare(
    settings: CollectSettings,
    target: LocatedModel,
    sha256: str,
    threads: int,
    should_stop: Callable[[], bool],
) -> Preparation | None:
    """Finds the fastest weights, and makes the corpus's card if there is none. None when stopped.

    A collector a thread will run on a processor, since one thread need not wait for another, or as
    many as fit into memory. threads: 0 for one a physical core. Raises RunError when the disk has
    no room.
    """
    started = time.monotonic()
    folder = Path(settings.folder)
    present = count(folder).answer_tokens
    if settings.seconds is None:
        require_disk(folder, estimated_bytes(settings, present, tokens_per_second=0.0))
    settings = replace(settings, collectors=threads or physical_cores())
    chosen = _choose_weights(settings, should_stop)
    if chosen is None:
        return None
    speeds: dict[str, float] = chosen["tokens_per_second"]
    weights = max(speeds, key=lambda name: speeds[name])
    settings = replace(
        settings,
        fast_copy=chosen["fast_copy"],
        sequences=chosen["sequences"],
        collectors=chosen["collectors"],
        seconds=_left(settings.seconds, time.monotonic() - started),
    )
    pace = settings.collectors * speeds[weights]
    needed = estimated_bytes(settings, present, pace)
    require_disk(folder, needed)
    card = read_card(folder) or _new_card(settings, target, sha256)
    write_card(folder, _with_run(card, settings, speeds, weights))
    expected = max(0, settings.answer_tokens - present)
    if settings.seconds is not None:
        expected = min(expected, int(_PACE_SHARE * pace * settings.seconds))
    return Preparation(settings, needed, expected, weights, pace)


def _left(seconds: float | None, spent: float) -> float | None:
    return None if seconds is None else max(1.0, seconds - spent)


def _with_run(
    card: CorpusCard, settings: CollectSettings, speeds: dict[str, float], weights: str
) -> CorpusCard:
    """The card with what this run adds to it."""
    return replace(
        card,
        generated_with=weights,
        tokens_per_second=speeds,
        text=tuple(dict.fromkeys((*card.text, *settings.text))),
        chats=card.chats or bool(settings.chats),
        prompt_files=tuple(dict.fromkeys((*card.prompt_files, *settings.prompts))),
    )


def _new_card(settings: CollectSettings, target: LocatedModel, sha256: str) -> CorpusCard:
    info = inspect(target.path)
    return CorpusCard(
        target_name=target.name,
        target_sha256=sha256,
        architecture=info.architecture,
        hidden_size=info.embedding_length,
        layers=read_layers(info.block_count),
        generated_with="",
        tokens_per_second={},
        seed=settings.seed,
        prompt=settings.prompt,
        answer=settings.answer,
        sampling=SAMPLING,
        heldout=HELDOUT,
        text=(),
        chats=False,
    )


def collect(
    prepared: Preparation,
    report: Callable[[CollectReport], None],
    should_stop: Callable[[], bool],
) -> Counts:
    """Runs collectors until the goal, the time or should_stop; what they wrote is kept in any case.

    EngineError of the first collector that failed, when all have ended.
    """
    settings = prepared.settings
    folder = Path(settings.folder)
    before = count(folder).answer_tokens
    if before >= settings.answer_tokens or should_stop():
        return count(folder)
    start = time.monotonic()
    told: Told = queue.Queue()
    command, request = ("corpus.collect_child", "collect"), asdict(settings)
    children = [Child(command, request, told, number) for number in range(settings.collectors)]
    made = [0] * settings.collectors

    def hear(number: int, message: Message) -> None:
        told_tokens = answer_tokens(message)
        if told_tokens is None:
            return
        made[number] = told_tokens
        report(_report(before, sum(made), prepared, time.monotonic() - start))

    def is_over() -> bool:
        return should_stop() or before + sum(made) >= settings.answer_tokens

    follow(children, told, hear, is_over)
    return count(folder)


def _report(before: int, made: int, prepared: Preparation, seconds: float) -> CollectReport:
    settings = prepared.settings
    if not made:
        return CollectReport(before, before + prepared.expected, seconds, settings.seconds)
    goal = settings.answer_tokens
    left = max(0, goal - before - made) * seconds / made
    if settings.seconds is not None and settings.seconds - seconds < left:
        left = max(0.0, settings.seconds - seconds)
        goal = before + round(made * (1 + left / seconds))
    return CollectReport(before + made, goal, seconds, left)


def _choose_weights(settings: CollectSettings, should_stop: Callable[[], bool]) -> Message | None:
    """None when it was stopped before there was a choice."""
    told: Told = queue.Queue()
    answers: list[Message] = []

    def hear(_number: int, message: Message) -> None:
        if isinstance(message.get("result"), dict):
            answers.append(message["result"])

    child = Child(("corpus.collect_child", "prepare"), asdict(settings), told, 0)
    try:
        follow([child], told, hear, should_stop)
    except RunError:
        if should_stop():
            return None
        raise
    if not answers:
        raise RunError("the choice of weights ended without a result; try again")
    return answers[-1]
