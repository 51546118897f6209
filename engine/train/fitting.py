"""The parent's side of training a drafter: names, places, budget; torch runs in a child process."""

from __future__ import annotations

import importlib.util
import queue
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.children.json_lines import Message
from engine.data.errors import BadOptionError, RunError
from engine.train.child import Child, Told, follow
from engine.train.told import card_of, is_progress
from engine.train.training import TrainRequest

TORCH = "torch==2.13.0"
COLLECTING_SHARE = 0.55
"""Of the time for everything. The best split is flat: Medusa heads kept 0.77 tokens a round after
16 times 72,000 tokens and 0.79 after 8 times 105,000, which with the collecting takes as long."""
_WRITING_SECONDS = 60.0
_LEAST_SECONDS = 30.0


def require_torch() -> None:
    """BadOptionError with the command that installs it."""
    if importlib.util.find_spec("torch") is None:
        raise BadOptionError(
            "training needs torch, which is not installed: run "
            f"`.venv/bin/python -m pip install {TORCH}` in Forerun's folder"
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds of collecting and of training."""

    collecting: float
    training: float


def plan_budget(minutes: float) -> Budget:
    """What is left after writing and checking, for data and for learning from it."""
    usable = 60.0 * minutes - min(_WRITING_SECONDS, 12.0 * minutes)
    if usable < _LEAST_SECONDS:
        raise BadOptionError("--minutes is too short for anything; 30 is a good start")
    return Budget(COLLECTING_SHARE * usable, (1 - COLLECTING_SHARE) * usable)


def require_device(name: str) -> None:
    """BadOptionError when torch finds no such device; torch is asked in a process of its own."""
    told: Told = queue.Queue()
    follow([Child(("torch.child", "device", name), {}, told, 0)], told, _ignore, lambda: False)


def _ignore(_number: int, _message: Message) -> None:
    pass


def fit(
    request: TrainRequest, report: Callable[[Message], None], should_stop: Callable[[], bool]
) -> Message:
    """Trains in a child process; returns the card. report gets its progress messages."""
    told: Told = queue.Queue()
    cards: list[Message] = []

    def hear(_number: int, message: Message) -> None:
        card = card_of(message)
        if card is not None:
            cards.append(card)
        elif is_progress(message):
            report(message)

    follow([Child(("torch.child",), asdict(request), told, 0)], told, hear, should_stop)
    if not cards:
        raise RunError("training ended without a result")
    return cards[0]


def free_name(heads: Path, stem: str, unfinished: Collection[str]) -> str:
    """The first number that is not taken, for a result without a name."""
    number = 1
    while (heads / f"{stem}-{number}").exists() or str(number) in unfinished:
        number += 1
    return str(number)
