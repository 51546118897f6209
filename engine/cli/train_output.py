"""What `forerun train` says while it works, for people and programs; Ctrl-C as a wish to end."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from engine.data.shown import shown
from engine.train.corpus.collection import CollectReport
from engine.train.corpus.shards import Counts

_LINE_SECONDS = 10.0
_WISHES = ("SIGINT", "SIGBREAK")  # the second one is Windows' for a group of processes


class StopFlag:
    """Set by Ctrl-C while it is entered. A second Ctrl-C interrupts as usual, and so does SIGTERM:
    then nothing is finished, and --resume goes on."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._before: dict[int, Any] = {}

    def is_set(self) -> bool:
        return self._event.is_set()

    def __enter__(self) -> StopFlag:
        numbers = (getattr(signal, name, None) for name in _WISHES)
        for number in (number for number in numbers if number is not None):
            self._before[number] = signal.signal(number, self._stop)
        self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if self._event.is_set():
            raise KeyboardInterrupt
        self._event.set()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class TrainOutput:
    """as_json: one object a line on stdout; else lines for people on stderr."""

    def __init__(self, as_json: bool, stop: StopFlag) -> None:
        self.stop = stop
        self._as_json = as_json
        self._shown = 0.0
        self._stage = ""

    def say(self, text: str) -> None:
        if not self._as_json:
            print(shown(text), file=sys.stderr, flush=True)

    def collected(self, report: CollectReport) -> None:
        self.progress(
            {
                "stage": "generating",
                "done": report.answer_tokens,
                "total": report.goal,
                "seconds": round(report.seconds, 1),
                "seconds_left": report.seconds_left,
                "heldout": None,
                "loss": None,
            }
        )

    def progress(self, message: dict[str, Any]) -> None:
        """A message as in the documentation of --json."""
        if self._as_json:
            print(json.dumps(message), flush=True)
            return
        now = time.monotonic()
        if message["stage"] == self._stage and now - self._shown < _LINE_SECONDS:
            return
        self._shown, self._stage = now, message["stage"]
        print(_line(message), file=sys.stderr, flush=True)

    def card(self, card: dict[str, Any], folder: str) -> None:
        """The result, in the end."""
        if self._as_json:
            print(json.dumps({"done": True, "card": card}), flush=True)
            return
        heldout = card["heldout"]
        rates = " ".join(f"{rate:.3f}" for rate in heldout["hits"])
        print(f"{shown(folder)}: held-out hits {rates}, {heldout['accepted']:.2f} accepted a round")
        print(f"use it with --drafter {card['kind']}:{card['name']}")

    def corpus(self, folder: Path, counts: Counts) -> None:
        if self._as_json:
            print(json.dumps({"done": True, "corpus": asdict(counts)}), flush=True)
            return
        print(
            f"{shown(str(folder))}: {counts.documents:,} documents, "
            f"{counts.answer_tokens:,} answer tokens "
            f"({counts.heldout_answer_tokens:,} held out)"
        )


def _line(message: dict[str, Any]) -> str:
    parts = [f"{message['stage']}: {message['done']:,} of {message['total']:,}"]
    if message["loss"] is not None:
        parts.append(f"loss {message['loss']:.3f}")
    if message["heldout"]:
        rates = " ".join(f"{rate:.3f}" for rate in message["heldout"])
        parts.append(f"held-out hits {rates}")
    if message["seconds_left"] is not None:
        minutes, seconds = divmod(int(message["seconds_left"]), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    return ", ".join(parts)
