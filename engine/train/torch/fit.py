"""The training loop of every kind of drafter: batches, schedule, watching, keeping the best."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.data.errors import BadOptionError, SuspendedError
from engine.train.torch.batches import Batch, learned_tokens, plan_batches
from engine.train.torch.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from engine.train.torch.compute import Compute
from engine.train.torch.dataset import Dataset, batch_of, heldout_sample, measure
from engine.train.torch.student import Student
from engine.train.training import (
    FitResult,
    Report,
    ShouldStop,
    TrainProgress,
    TrainSettings,
)

WATCHED = 1500
"""Anchors of the held-out sample that is looked at during training."""

_WARM_UP = 0.04
_CLIP = 1.0
_BETAS = (0.9, 0.95)
_PATIENCE = 8  # looks without a better one, in the second half of the schedule
_STEPS_A_LOOK = 60
_LOOKS = (4, 48)  # at least and, of a run over epochs, at most
_LEARNING_TO_LOOKING = 12  # looks and saving are rare enough that most time goes into learning
_REPORT_SECONDS = 5.0


class Fit:
    """One training run. Weights of the student are the best ones afterwards.

    checkpoint: where the state is kept, so that a run goes on where it was; None for nowhere.
    """

    def __init__(
        self,
        student: Student,
        dataset: Dataset,
        settings: TrainSettings,
        compute: Compute,
        checkpoint: Path | None = None,
    ) -> None:
        self._student = student
        self._settings = settings
        self._compute = compute
        self._checkpoint = checkpoint
        self._documents = dataset.training
        self._lengths = [learned_tokens(document) for document in self._documents]
        self._watched = heldout_sample(dataset.heldout, WATCHED, student.spread, settings.seed)
        if not sum(self._lengths) or not self._watched.documents:
            raise BadOptionError("the corpus holds too little text; collect more of it first")
        self._rate = settings.learning_rate or student.rate
        values = list(student.parameters.values())
        self._optimiser = torch.optim.AdamW(
            values, lr=self._rate, betas=_BETAS, weight_decay=0.0, fused=True
        )
        per_epoch = len(plan_batches(self._lengths, settings.batch, settings.seed, 0))
        self._planned = max(1, round(per_epoch * settings.epochs))
        looks = min(max(self._planned // _STEPS_A_LOOK, _LOOKS[0]), _LOOKS[1])
        self._steps_a_look = max(1, round(self._planned / looks))
        self._least_pause = settings.evaluate_every
        if settings.seconds is not None:  # of a short training several looks are to be seen, too
            self._least_pause = min(self._least_pause, settings.seconds / _LOOKS[0])
        self._pause = self._least_pause
        self._saved = self._reported = 0.0
        self._losses: list[float] = []
        self._state = Checkpoint(best=_copied(student.parameters))

    def run(self, report: Report, should_stop: ShouldStop) -> FitResult:
        """Trains until the plan is done, the user stops, or held-out documents gain no more.

        SuspendedError from should_stop is let through, once the state is saved.
        """
        self._resume()
        self._started = time.monotonic() - self._state.seconds
        self._saved = self._reported = time.monotonic()
        if self._state.steps == 0:
            self._look(report)
        try:
            early = self._learn(report, should_stop)
        except SuspendedError:
            self._save()
            raise
        if not early and self._losses:
            self._look(report)
        for name, value in self._student.parameters.items():
            value.data.copy_(self._state.best[name])
        return self._result(early and not self._done())

    def _learn(self, report: Report, should_stop: ShouldStop) -> bool:
        """True when it is time to stop before the plan is done."""
        while not self._done() and not should_stop():
            self._losses.append(self._step())
            now = time.monotonic()
            if self._is_time_to_look(now):
                if self._look(report):
                    return True
            elif now - self._saved >= self._pause:
                self._save()
            elif now - self._reported >= _REPORT_SECONDS:
                self._report(report)
        return False

    def _is_time_to_look(self, now: float) -> bool:
        """By steps where the plan is in steps, so that the same seed keeps the same weights."""
        if self._settings.seconds is None:
            return self._state.steps % self._steps_a_look == 0
        return now - self._saved >= self._pause

    # One step

    def _step(self) -> float:
        batch, random = self._next_batch()
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate * _schedule(self._fraction())
        self._optimiser.zero_grad(set_to_none=True)
        with self._compute.products():
            loss = self._student.loss(batch, random)
        loss.backward()  # type: ignore[no-untyped-call]
        values = list(self._student.parameters.values())
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
        return batch_of(self._student, documents, self._compute.device), random

    def _fraction(self) -> float:
        """Of the plan that is done."""
        if self._settings.seconds is not None:
            return min(1.0, self._state.seconds / self._settings.seconds)
        return min(1.0, self._state.steps / self._planned)

    def _done(self) -> bool:
        return self._fraction() >= 1.0

    # Watching

    def _look(self, report: Report) -> bool:
        """Measures on held-out documents, keeps the best, saves; True when it is time to stop."""
        before = time.monotonic()
        heldout = measure(self._student, self._watched, self._compute.device)
        seconds = time.monotonic() - self._started
        state = replace(
            self._state,
            seconds=seconds,
            curve=(*self._state.curve, (seconds, heldout.accepted)),
            worse=self._state.worse + 1,
            latest=heldout,
        )
        if state.heldout is None or heldout.accepted >= state.heldout.accepted:
            state = replace(state, heldout=heldout, best=_copied(self._student.parameters), worse=0)
        self._state = state
        self._save()
        taken = time.monotonic() - before
        self._pause = max(self._least_pause, _LEARNING_TO_LOOKING * taken)
        self._report(report)
        self._losses.clear()
        return self._fraction() > 0.5 and state.worse >= _PATIENCE

    def _report(self, report: Report) -> None:
        """Held-out figures are those of the last look, the loss is the mean since then."""
        state, fraction = self._state, self._fraction()
        seconds = time.monotonic() - self._started
        left = seconds * (1.0 - fraction) / fraction if fraction > 0.0 else None
        loss = float(np.mean(self._losses)) if self._losses else None
        total = self._planned if self._settings.seconds is None else round(self._settings.seconds)
        done = min(state.steps if self._settings.seconds is None else round(seconds), total)
        report(TrainProgress("training", done, total, seconds, left, state.latest, loss))
        self._reported = time.monotonic()

    def _save(self) -> None:
        if self._checkpoint is not None:
            parameters, mark = self._student.parameters, self._mark()
            save_checkpoint(self._checkpoint, self._state, parameters, self._optimiser, mark)
        self._saved = time.monotonic()

    def _resume(self) -> None:
        if self._checkpoint is not None and self._checkpoint.is_file():
            self._state = load_checkpoint(
                self._checkpoint,
                self._student.parameters,
                self._optimiser,
                self._mark(),
                self._compute.device,
            )

    def _mark(self) -> dict[str, str]:
        """What a checkpoint must have been made with to be gone on with."""
        settings = self._settings
        shapes = [(name, tuple(value.shape)) for name, value in self._student.parameters.items()]
        values: dict[str, object] = {
            "weights": shapes,
            "tokens ahead": self._student.positions,
            "draft vocabulary": settings.draft_vocabulary,
            "learning rate": self._rate,
            "seed": settings.seed,
            "batch size": settings.batch,
            "data": (len(self._documents), sum(self._lengths)),
        }
        return {name: repr(value) for name, value in values.items()}

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
