"""From a corpus to a finished folder of heads: train, measure, choose a format, write, check."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.data.errors import BadOptionError, RunError
from engine.files.disk import write_atomically
from engine.llama.library import Library
from engine.train.corpus.shards import Corpus, Document, count
from engine.train.encoded import through_format
from engine.train.target_weights import TargetWeights
from engine.train.torch.batches import learned_tokens, sample_of
from engine.train.torch.check import check_file
from engine.train.torch.compute import Compute, choose_compute
from engine.train.torch.dataset import Dataset, Sample, heldout_sample, limited, measure
from engine.train.torch.fit import WATCHED, Fit
from engine.train.torch.kinds import Kind, TrainingContext, prepare
from engine.train.torch.student import Student
from engine.train.trainable import require_trainable
from engine.train.training import (
    FitResult,
    HeldOut,
    Report,
    ShouldStop,
    TrainProgress,
    TrainRequest,
)

CARD = "card.json"
WEIGHTS = "heads.gguf"
FORMATS = ("Q4_0", "Q8_0", "F16")
"""From small to large; the first one that keeps enough of the acceptance is written."""
_ENOUGH = 0.98
_MEASURED = 4000  # anchors of the final held-out figures
_LEAST_MEASURED = 1000
_CHOSEN_BY = 500  # anchors that a start is chosen by


def train(
    request: TrainRequest, library: Library, report: Report, should_stop: ShouldStop
) -> dict[str, Any]:
    """Returns the card. The output folder appears in one step, when everything is in it.

    A stop ends training; what was best so far is written. Raises RequestError, RunError.
    """
    output = Path(request.output)
    if output.exists():
        raise BadOptionError(f"{output} exists already; choose another name with --out")
    settings = request.settings
    torch.manual_seed(settings.seed)
    torch.set_num_threads(settings.threads)
    compute = choose_compute(settings.device, settings.precision, library.multiplies_bf16)
    require_trainable(request.kind, Path(request.target))
    target = TargetWeights(Path(request.target))
    dataset = _dataset(request)
    watched = list(sample_of(dataset.heldout, _CHOSEN_BY, settings.seed))
    context = TrainingContext(target, dataset.training, watched, settings, compute.device)
    kind = prepare(request.kind, context, library.log)
    checkpoint = Path(request.checkpoint) if request.checkpoint else None
    fitted = Fit(kind.student, dataset, settings, compute, checkpoint).run(report, should_stop)
    card = _card(request, kind, fitted, compute)
    part = output.with_name(f".part-{output.name}")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        card |= _finish(request, kind, dataset, part, library, _heeding(report, should_stop))
        write_atomically(part / CARD, json.dumps(card, indent=2) + "\n")
        part.rename(output)
    except OSError as error:
        raise RunError(f"{output} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return card


def _heeding(report: Report, should_stop: ShouldStop) -> Report:
    """Reports, and lets through a SuspendedError; there is no stopping before the result now."""

    def heed(progress: TrainProgress) -> None:
        should_stop()
        report(progress)

    return heed


def _dataset(request: TrainRequest) -> Dataset:
    settings, corpus = request.settings, Corpus(Path(request.corpus), request.shards)
    training = limited(corpus.documents(heldout=False), settings.tokens, settings.seed)
    dataset = Dataset(training, corpus.documents(heldout=True))
    if not training or not dataset.heldout:
        raise BadOptionError("the corpus holds too little text; collect more of it first")
    return dataset


def _finish(
    request: TrainRequest,
    kind: Kind,
    dataset: Dataset,
    folder: Path,
    library: Library,
    report: Report,
) -> dict[str, Any]:
    """Fills the folder; returns what the card says of it."""
    started = time.monotonic()
    seed, device = request.settings.seed, _device(kind.student)
    sample = heldout_sample(dataset.heldout, WATCHED, kind.student.spread, seed)
    weights = {name: value.copy() for name, value in _weights(kind.student).items()}
    figures = {"F32": measure(kind.student, sample, device)}
    for number, name in enumerate(FORMATS):
        report(TrainProgress("writing", number, len(FORMATS), time.monotonic() - started))
        figures[name] = _measured_as(kind.student, weights, name, sample)
    chosen = _chosen(figures)
    kind.write(folder / WEIGHTS, weights, chosen)
    if request.published:
        kind.write_published(folder, weights)
    report(TrainProgress("checking", 0, 1, time.monotonic() - started))
    _fill(kind.student, {name: through_format(value, chosen) for name, value in weights.items()})
    place, target, threads = folder / WEIGHTS, Path(request.target), request.settings.threads
    check = check_file(place, kind.student, dataset.heldout, target, threads, library)
    heldout = measure(kind.student, _unwatched(dataset.heldout, kind.student, seed), device)
    report(TrainProgress("checking", 1, 1, time.monotonic() - started, 0.0, heldout))
    return {
        "format": chosen,
        "heldout": asdict(heldout),
        "formats": {name: asdict(found) for name, found in figures.items()},
        "check": asdict(check),
        "bytes": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
    }


def _unwatched(heldout: Sequence[Document], student: Student, seed: int) -> Sample:
    """Held-out documents that no weights were chosen by, where there are enough of them."""
    others = heldout_sample(heldout, _MEASURED, student.spread, seed, after=WATCHED)
    if sum(map(learned_tokens, others.documents)) >= _LEAST_MEASURED:
        return others
    return heldout_sample(heldout, _MEASURED, student.spread, seed)


def _chosen(figures: dict[str, HeldOut]) -> str:
    wanted = _ENOUGH * figures["F32"].accepted
    return next((name for name in FORMATS if figures[name].accepted >= wanted), FORMATS[-1])


def _weights(student: Student) -> dict[str, NDArray[np.float32]]:
    return {name: value.detach().numpy(force=True) for name, value in student.parameters.items()}


def _measured_as(
    student: Student,
    weights: dict[str, NDArray[np.float32]],
    name: str,
    sample: Sample,
) -> HeldOut:
    """Held-out figures with the weights as the format keeps them; the student stays as it was."""
    _fill(student, {key: through_format(value, name) for key, value in weights.items()})
    try:
        return measure(student, sample, _device(student))
    finally:
        _fill(student, weights)


def _fill(student: Student, weights: dict[str, NDArray[np.float32]]) -> None:
    with torch.no_grad():
        for name, value in student.parameters.items():
            value.copy_(torch.from_numpy(weights[name]))


def _device(student: Student) -> torch.device:
    return next(iter(student.parameters.values())).device


def _card(request: TrainRequest, kind: Kind, fitted: FitResult, compute: Compute) -> dict[str, Any]:
    counts = count(Path(request.corpus), request.shards)
    return {
        "kind": request.kind,
        "name": request.name,
        "target": {"name": Path(request.target).name, "sha256": request.target_sha256},
        "corpus": asdict(counts),
        "training": {
            "steps": fitted.steps,
            "learned_tokens": fitted.anchors,
            "seconds": round(fitted.seconds, 1),
            "stopped_early": fitted.stopped_early,
            "device": str(compute.device),
            "precision": compute.precision,
            "curve": [[round(seconds, 1), round(value, 4)] for seconds, value in fitted.curve],
        },
        "settings": asdict(request.settings),
        **kind.facts,
        "command": request.command,
        "versions": {name: version(name) for name in ("torch", "numpy", "llama-cpp-python")},
    }
