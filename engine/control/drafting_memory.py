"""What is known of every drafter, for each kind of text: the memory of automatic drafting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from engine.control.drafter_statistics import DrafterStatistics
from engine.control.speed_record import SpeedRecord
from engine.control.tuning import TUNING, Tuning

TextKind = Literal["greedy", "sampled"]
"""How a reply is chosen: a drafter's confidence means something else for each."""

_VERSION = 3


class DraftingMemory:
    """Statistics are made empty when a drafter is first asked for."""

    def __init__(self, tuning: Tuning = TUNING) -> None:
        self._tuning = tuning
        self._drafters: dict[tuple[str, TextKind], DrafterStatistics] = {}
        self._speeds: dict[TextKind, SpeedRecord] = {}

    def of(self, drafter: str, kind: TextKind) -> DrafterStatistics:
        return self._drafters.setdefault((drafter, kind), DrafterStatistics(self._tuning))

    def speed(self, kind: TextKind) -> SpeedRecord:
        """Of the loaded pair, with any of its drafters."""
        return self._speeds.setdefault(kind, SpeedRecord(self._tuning.speed_record))

    def speed_ups(self) -> dict[TextKind, float]:
        """By kind of text, where enough was written."""
        found = {kind: record.speed_up for kind, record in self._speeds.items()}
        return {kind: value for kind, value in found.items() if value is not None}

    def begin_reply(self) -> None:
        for statistics in self._drafters.values():
            statistics.begin_reply()
        for record in self._speeds.values():
            record.begin_reply()

    def fade_others(self, drafter: str, kind: TextKind, tokens: int) -> None:
        """Tokens were written without a draft step of the other drafters."""
        for (name, of_kind), statistics in self._drafters.items():
            if name != drafter and of_kind == kind:
                statistics.confidences.fade(tokens)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "accounts": {
                f"{kind} {drafter}": statistics.to_json()
                for (drafter, kind), statistics in self._drafters.items()
            },
            "speeds": {kind: record.to_json() for kind, record in self._speeds.items()},
        }

    @staticmethod
    def from_json(content: Mapping[str, Any], tuning: Tuning = TUNING) -> DraftingMemory:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        if content["version"] != _VERSION:
            raise ValueError("written by another version")
        memory = DraftingMemory(tuning)
        for key, value in content["accounts"].items():
            kind, _, drafter = key.partition(" ")
            statistics = DrafterStatistics.from_json(value, tuning)
            memory._drafters[drafter, _text_kind(kind)] = statistics
        for kind, value in content["speeds"].items():
            record = SpeedRecord.from_json(value, tuning.speed_record)
            memory._speeds[_text_kind(kind)] = record
        return memory


def _text_kind(name: str) -> TextKind:
    return "sampled" if name == "sampled" else "greedy"
