"""The training loop of every kind of drafter: batches, schedule, watching, keeping the best."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.errors import BadOptionError
from engine.train.heldout import figures, joined
from engine.train.shards import Document
from engine.train.torch_batches import (
    Batch,
    learned_tokens,
    make_batch,
    plan_batches,
    sample_of,
)
from engine.train.torch_checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from engine.train.torch_compute import Compute
from engine.train.torch_trainee import Trainee
from engine.train.training import (
    FitResult,
    HeldOut,
    Report,
    ShouldStop,
    TrainProgress,
    TrainSettings,
)

_WARM_UP = 0.04
_CLIP = 1.0
_BETAS = (0.9, 0.95)
_WATCHED = 1500  # anchors of the held-out sample that is looked at during training
_PATIENCE = 8  # looks without a better one, in the second half of the schedule
_ROWS_AT_ONCE = 2000
_LEARNING_TO_LOOKING = 12  # looks are rare enough that most of the time goes into learning


@dataclass(frozen=True, slots=True)
class Material:
    """Documents to train on and documents held out."""

    training: Sequence[Document]
    heldout: Sequence[Document]


def limited(documents: Sequence[Document], tokens: int | None, seed: int) -> Sequence[Document]:
    """The first documents, in a seeded order, that hold about `tokens` learned tokens."""
    if tokens is None:
        return documents
    return list(sample_of(documents, tokens, seed))


def measure(trainee: Trainee, documents: Sequence[Document], device: torch.device) -> HeldOut:
    """Held-out figures over whole documents."""
    parts, group, held = [], [], 0
    for document in documents:
        group.append(document)
        held += len(document.tokens)
        if held >= _ROWS_AT_ONCE:
            parts.append(trainee.drafts(_batch(trainee, group, device)))
            group, held = [], 0
    if group:
        parts.append(trainee.drafts(_batch(trainee, group, device)))
    return figures(joined(parts))


class Fit:
    """One training run. Weights of the trainee are the best ones afterwards.

    checkpoint: where the state is kept, so that a run goes on where it was; None for nowhere.
    """

    def __init__(
        self,
        trainee: Trainee,
        material: Material,
        settings: TrainSettings,
        compute: Compute,
        checkpoint: Path | None = None,
    ) -> None:
        self._trainee = trainee
        self._settings = settings
        self._compute = compute
        self._device = compute.device
        self._checkpoint = checkpoint
        self._documents = material.training
        self._lengths = [learned_tokens(document) for document in self._documents]
        self._watched = list(sample_of(material.heldout, _WATCHED, settings.seed))
        if not sum(self._lengths) or not self._watched:
            raise BadOptionError("the corpus holds too little text; collect more of it first")
        self._rate = settings.learning_rate or trainee.rate
        values = list(trainee.parameters.values())
        self._optimiser = torch.optim.AdamW(
            values, lr=self._rate, betas=_BETAS, weight_decay=0.0, fused=True
        )
        per_epoch = len(plan_batches(self._lengths, settings.batch, settings.seed, 0))
        self._planned = max(1, round(per_epoch * settings.epochs))
        self._look_seconds = 0.0
        self._state = Checkpoint(best=_copied(trainee.parameters))

    def run(self, report: Report, should_stop: ShouldStop) -> FitResult:
        """Trains until the plan is done, the user stops, or held-out documents gain no more."""
        self._resume()
        self._started = time.monotonic() - self._state.seconds
        if self._state.steps == 0:
            self._look(report, 0.0, None)
        losses: list[float] = []
        looked = time.monotonic()
        pause = max(self._settings.evaluate_every, _LEARNING_TO_LOOKING * self._look_seconds)
        early = False
        while not (done := self._done()) and not early and not should_stop():
            losses.append(self._step())
            if time.monotonic() - looked >= pause:
                early = self._look(report, self._fraction(), float(np.mean(losses)))
                losses, looked = [], time.monotonic()
        if not early:
            self._look(report, self._fraction(), float(np.mean(losses)) if losses else None)
        for name, value in self._trainee.parameters.items():
            value.data.copy_(self._state.best[name])
        return self._result(early and not done)

    # One step

    def _step(self) -> float:
        batch, random = self._next_batch()
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate * _schedule(self._fraction())
        self._optimiser.zero_grad(set_to_none=True)
        with self._compute.products():
            loss = self._trainee.loss(batch, random)
        loss.backward()  # type: ignore[no-untyped-call]
        values = list(self._trainee.parameters.values())
        torch.nn.utils.clip_grad_norm_(values, _CLIP)
        self._optimiser.step()
        anchors = len(batch.anchors[0])
        self._state = replace(
            self._state,
            steps=self._state.steps + 1,
            anchors=self._state.anchors + anchors,
            seconds=time.monotonic() - self._started,
        )
        return float(loss.detach())

    def _next_batch(self) -> tuple[Batch, np.random.Generator]:
        """Depends on the seed and the number of the step alone."""
        step, seed = self._state.steps, self._settings.seed
        plan = plan_batches(self._lengths, self._settings.batch, seed, 0)
        epoch, place = divmod(step, len(plan))
        if epoch:
            # Another order groups documents anew; the number of groups may differ a little.
            plan = plan_batches(self._lengths, self._settings.batch, seed, epoch)
        documents = [self._documents[number] for number in plan[place % len(plan)]]
        random = np.random.default_rng((seed, step))
        return _batch(self._trainee, documents, self._device), random

    def _fraction(self) -> float:
        """Of the plan that is done."""
        if self._settings.seconds is not None:
            return min(1.0, self._state.seconds / self._settings.seconds)
        return min(1.0, self._state.steps / self._planned)

    def _done(self) -> bool:
        return self._fraction() >= 1.0

    # Watching

    def _look(self, report: Report, fraction: float, loss: float | None) -> bool:
        """Measures on held-out documents, keeps the best, saves; True when it is time to stop."""
        before = time.monotonic()
        heldout = measure(self._trainee, self._watched, self._device)
        self._look_seconds = time.monotonic() - before
        seconds = time.monotonic() - self._started
        state = replace(
            self._state,
            seconds=seconds,
            curve=(*self._state.curve, (seconds, heldout.accepted)),
            worse=self._state.worse + 1,
        )
        if state.heldout is None or heldout.accepted >= state.heldout.accepted:
            state = replace(state, heldout=heldout, best=_copied(self._trainee.parameters), worse=0)
        self._state = state
        if self._checkpoint is not None:
            save_checkpoint(
                self._checkpoint, state, self._trainee.parameters, self._optimiser, self._mark()
            )
        left = seconds * (1.0 - fraction) / fraction if fraction > 0.0 else None
        total = self._planned if self._settings.seconds is None else round(self._settings.seconds)
        done = state.steps if self._settings.seconds is None else round(seconds)
        report(TrainProgress("training", min(done, total), total, seconds, left, heldout, loss))
        return fraction > 0.5 and state.worse >= _PATIENCE

    def _resume(self) -> None:
        if self._checkpoint is not None and self._checkpoint.is_file():
            self._state = load_checkpoint(
                self._checkpoint,
                self._trainee.parameters,
                self._optimiser,
                self._mark(),
                self._device,
            )

    def _mark(self) -> str:
        """What a checkpoint must have been made with to be gone on with."""
        shapes = [(name, tuple(value.shape)) for name, value in self._trainee.parameters.items()]
        return repr((shapes, self._settings.seed, self._settings.batch, len(self._documents)))

    def _result(self, stopped_early: bool) -> FitResult:
        state = self._state
        if state.heldout is None:
            raise ValueError("nothing was measured")
        return FitResult(
            state.heldout, state.steps, state.anchors, state.seconds, stopped_early, state.curve
        )


def _schedule(fraction: float) -> float:
    """A short linear rise, then a cosine to nearly nothing."""
    if fraction < _WARM_UP:
        return max(0.05, fraction / _WARM_UP)
    turned = (fraction - _WARM_UP) / (1.0 - _WARM_UP)
    return 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * turned))


def _copied(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in parameters.items()}


def _batch(trainee: Trainee, documents: Sequence[Document], device: torch.device) -> Batch:
    return make_batch(documents, trainee.positions, trainee.features, device)
