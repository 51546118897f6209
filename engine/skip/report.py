"""What a search for layers to leave out was asked and what it found: plain data, as JSON too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.data.errors import BadOptionError
from engine.data.prompts import TrialPrompt
from engine.files.measurements import Measurements, measurement_key
from engine.skip.search import Skip

Ending = Literal["done", "budget", "cancelled"]


@dataclass(frozen=True, slots=True)
class SkipSearchRequest:
    """reply_tokens: of the target's own greedy text per prompt. minutes: for the search.

    most: layers to leave out at most; 0: half of them. threads: 0 means physical cores.
    """

    model: str
    prompts: tuple[TrialPrompt, ...]
    reply_tokens: int = 64
    minutes: float = 10.0
    most: int = 0
    seed: int = 1
    threads: int = 0

    def __post_init__(self) -> None:
        if not 8 <= self.reply_tokens <= 256:
            raise BadOptionError("--reply-tokens must be between 8 and 256")
        if not 0.0 < self.minutes <= 10_000.0:
            raise BadOptionError("--budget must be minutes above 0")
        if self.most < 0:
            raise BadOptionError("--most must be 0 (half of the layers) or more")
        if len(self.prompts) < 2:
            raise BadOptionError("at least two prompts: some are kept to check the result on")


@dataclass(frozen=True, slots=True)
class SkipPoint:
    """The best set of one size.

    searched: share of the target's tokens it also chooses, on the texts of the search. agreement:
    the same on texts that the search did not see, by_category split. step: seconds of one drafted
    token; speedup: to be expected with drafts of `length`.
    """

    skip: Skip
    searched: float
    agreement: float
    by_category: tuple[tuple[str, float], ...]
    step: float
    speedup: float
    length: int

    def to_json(self) -> dict[str, Any]:
        return {
            "skip": list(self.skip),
            "searched": self.searched,
            "agreement": self.agreement,
            "by_category": dict(self.by_category),
            "draft_seconds": self.step,
            "expected_speedup": self.speedup,
            "draft_length": self.length,
        }


@dataclass(frozen=True, slots=True)
class SkipReport:
    """points: by number of layers left out. passes: T(n) in seconds. tried: sets evaluated."""

    layers: int
    points: tuple[SkipPoint, ...]
    passes: tuple[tuple[int, float], ...]
    tried: int
    tokens_searched: int
    tokens_checked: int
    ending: Ending

    @property
    def best(self) -> SkipPoint | None:
        """By expected speed-up, which on some machines is below 1 for all of them."""
        return max(self.points, key=lambda point: point.speedup, default=None)

    def to_json(self) -> dict[str, Any]:
        best = self.best
        return {
            "layers": self.layers,
            "best": list(best.skip) if best is not None else None,
            "curve": [point.to_json() for point in self.points],
            "pass_seconds": {str(width): seconds for width, seconds in self.passes},
            "sets_tried": self.tried,
            "tokens_searched": self.tokens_searched,
            "tokens_checked": self.tokens_checked,
            "ending": self.ending,
        }


def remember_best(known: Measurements, file: Path, skip: Skip) -> None:
    known.put(measurement_key("skip-layers", file, "best"), {"skip": list(skip)})


def remembered_best(known: Measurements, file: Path, layers: int) -> Skip | None:
    """The set that a search found for this file; None if there was none that still makes sense."""
    found = known.get(measurement_key("skip-layers", file, "best"))
    skip = found.get("skip") if found is not None else None
    if not isinstance(skip, list) or not skip or len(skip) >= layers:
        return None
    if not all(isinstance(layer, int) and 0 <= layer < layers for layer in skip):
        return None
    return tuple(skip)
