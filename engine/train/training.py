"""What is asked of a trainer and what it tells, without torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

MOST_POSITIONS = 8
"""Tokens ahead that can be asked for."""
DRAFT_VOCABULARY = (256, 1_000_000)
"""From and to, in tokens; more than the target has are as many as it has."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""Of a result, which becomes part of a folder's name."""

Stage = Literal["training", "writing", "checking"]
HeadKind = Literal["medusa", "eagle3", "early-exit"]


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """positions: tokens drafted (heads, or steps of the training-time test).

    seconds: of training, None for `epochs` of the corpus. batch: anchors an optimiser step.
    tokens: train on documents with about so many learned tokens, None for all. keep_layers: early
    exit, layers of the target that are kept. deep_share: EAGLE-3, share of the anchors that go on
    to later steps, where most of the work is. own_rows: Medusa heads learn rows of their own
    instead of sharing the target's. threads: of the processor; device: "auto" is a CUDA card when
    torch finds one, else the processor. precision: of products in training; "auto" is bfloat16
    where the device has an instruction for it, else float32. evaluate_every: seconds between looks
    at held-out documents, at least; over epochs looks go by steps, and this is between savings.
    """

    positions: int = 4
    draft_vocabulary: int = 16_000
    seconds: float | None = None
    epochs: float = 1.0
    tokens: int | None = None
    batch: int = 256
    learning_rate: float | None = None
    seed: int = 0
    threads: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    blocks: int = 1
    own_rows: bool = False
    keep_layers: int = 6
    deep_share: float = 0.5
    evaluate_every: float = 60.0


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What crosses to the trainer's process. target, corpus, output: paths.

    output: folder of the result, which must not exist yet. checkpoint: file that keeps an
    unfinished run, "" for none; a run goes on from it when it is there. target_sha256: of the
    target's file. command: what the user typed, for the card. shards: of the corpus, the first
    ones, so that a run goes on with the data it began with; None for all. published: also write the
    published layout, which for Medusa is large.
    """

    kind: HeadKind
    name: str
    target: str
    target_sha256: str
    corpus: str
    output: str
    checkpoint: str
    command: str
    settings: TrainSettings
    shards: int | None = None
    published: bool = False


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How a drafter does on documents it was not trained on; see engine.train.heldout.

    hits: share of anchors whose drafted token is the target's own choice, by position, each
    drafted after the document's tokens. accepted: expected length of a greedy chain.
    conditional: share among anchors whose earlier positions all hit. anchors: looked at.
    """

    hits: tuple[float, ...]
    conditional: tuple[float, ...]
    accepted: float
    anchors: int


@dataclass(frozen=True, slots=True)
class TrainProgress:
    """seconds_left: None while not known. heldout: of the last look. loss: mean since then."""

    stage: Stage
    done: int
    total: int
    seconds: float
    seconds_left: float | None = None
    heldout: HeldOut | None = None
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class FitResult:
    """heldout: of the weights that were kept, on the small sample that is watched."""

    heldout: HeldOut
    steps: int
    anchors: int
    seconds: float
    stopped_early: bool
    curve: tuple[tuple[float, float], ...] = field(default=())  # seconds, expected length


Report = Callable[[TrainProgress], None]
ShouldStop = Callable[[], bool]
