"""Each kind of drafter from a target and a corpus to files: what to train, how to write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from engine.data.errors import BadOptionError
from engine.llama.log import NativeLog
from engine.train import eagle3_file, medusa_output
from engine.train.corpus.settings import read_layers
from engine.train.corpus.shards import Document
from engine.train.cut_file import write_cut
from engine.train.draft_vocabulary import choose_tokens, positions_of
from engine.train.eagle3_file import Eagle3Weights
from engine.train.target_weights import TargetWeights
from engine.train.torch import eagle3 as torch_eagle3
from engine.train.torch import early_exit as torch_early_exit
from engine.train.torch import medusa as torch_medusa
from engine.train.torch.dataset import Sample, measure
from engine.train.torch.eagle3 import Eagle3Student
from engine.train.torch.early_exit import EarlyExitStudent
from engine.train.torch.medusa import MedusaStudent
from engine.train.torch.student import DraftHead, Student
from engine.train.training import HeadKind, TrainSettings

Weights = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class TrainingContext:
    """What every kind is made from. watched: held-out documents to choose a start by."""

    target: TargetWeights
    training: Sequence[Document]
    watched: Sequence[Document]
    settings: TrainSettings
    device: torch.device


class Kind(Protocol):
    """student: what learns. facts: for the card, known before training."""

    student: Student
    facts: dict[str, object]

    def write(self, path: Path, weights: Weights, kind: str) -> None:
        """The GGUF, with matrices of that format."""

    def write_published(self, folder: Path, weights: Weights) -> None:
        """The layout that other programs read."""


def prepare(kind: HeadKind, context: TrainingContext, log: NativeLog) -> Kind:
    """The kind before its first step. BadOptionError, IncompatiblePairError."""
    if kind == "medusa":
        return _Medusa(context)
    return _Eagle3(context) if kind == "eagle3" else _EarlyExit(context, log)


def draft_tokens(context: TrainingContext) -> tuple[NDArray[np.int64], float]:
    """Target ids that a head knows, and the share of the watched answers they cover."""
    size = context.target.vocabulary
    counts = np.zeros(size, np.int64)
    for document in context.training:
        counts += np.bincount(document.tokens[document.answer], minlength=size)
    token_ids = choose_tokens(counts, context.settings.draft_vocabulary, size)
    written = np.concatenate([d.tokens[d.answer] for d in context.watched])
    return token_ids, float(np.isin(written, token_ids).mean())


def _draft_head(context: TrainingContext, token_ids: NDArray[np.int64]) -> DraftHead:
    places = positions_of(token_ids, context.target.vocabulary)
    return DraftHead(context.target.head_rows(token_ids), token_ids, places, context.device)


class _Eagle3:
    def __init__(self, context: TrainingContext) -> None:
        self._ground = context
        self._token_ids, covered = draft_tokens(context)
        weights = torch_eagle3.initial_weights(context.target, context.settings.seed)
        student = Eagle3Student(
            context.target,
            weights,
            _draft_head(context, self._token_ids),
            context.settings.positions,
            context.device,
        )
        student.deep_share = context.settings.deep_share
        self.student: Student = student
        self.facts: dict[str, object] = {"draft_tokens": len(self._token_ids), "covered": covered}

    def _weights(self, weights: Weights) -> Eagle3Weights:
        layers = read_layers(self._ground.target.layers)
        return Eagle3Weights(weights, self._token_ids, layers)

    def write(self, path: Path, weights: Weights, kind: str) -> None:
        eagle3_file.write_eagle3(
            path, self._weights(weights), self._ground.target, kind, own_head=True
        )
        small = path.with_name("without-head.gguf")
        eagle3_file.write_eagle3(
            small, self._weights(weights), self._ground.target, kind, own_head=False
        )

    def write_published(self, folder: Path, weights: Weights) -> None:
        eagle3_file.write_published(folder, self._weights(weights), self._ground.target)


class _Medusa:
    def __init__(self, context: TrainingContext) -> None:
        self._ground = context
        self._token_ids, covered = draft_tokens(context)
        settings = context.settings
        head = _draft_head(context, self._token_ids)
        own = head.rows.numpy(force=True) if settings.own_rows else None
        weights = torch_medusa.initial_weights(
            context.target.shape.hidden, settings.positions, settings.blocks, own
        )
        self.student: Student = MedusaStudent(weights, head, settings.positions, context.device)
        self.facts: dict[str, object] = {"draft_tokens": len(self._token_ids), "covered": covered}

    def write(self, path: Path, weights: Weights, kind: str) -> None:
        medusa_output.write_container(path, weights, self._token_ids, self._ground.target, kind)

    def write_published(self, folder: Path, weights: Weights) -> None:
        medusa_output.write_published(folder, weights, self._token_ids, self._ground.target)


class _EarlyExit:
    def __init__(self, context: TrainingContext, log: NativeLog) -> None:
        self._ground = context
        self._log = log
        target, keep = context.target, context.settings.keep_layers
        if not 2 <= keep < target.layers:
            raise BadOptionError(f"early exit keeps 2 to {target.layers - 1} layers, not {keep}")
        head = _draft_head(context, np.arange(target.vocabulary))
        best = -1.0
        for kept in torch_early_exit.layer_choices(target.layers, keep):
            weights = torch_early_exit.initial_weights(target, kept)
            positions = context.settings.positions
            student = EarlyExitStudent(target, weights, head, positions, context.device)
            accepted = measure(student, Sample(context.watched), context.device).accepted
            if accepted > best:
                best, self._kept, self.student = accepted, kept, _as_student(student)
        self.facts: dict[str, object] = {"kept_layers": list(self._kept), "untrained": best}

    def write(self, path: Path, weights: Weights, kind: str) -> None:
        write_cut(path, weights, self._kept, self._ground.target, kind, self._log)

    def write_published(self, folder: Path, weights: Weights) -> None:
        raise BadOptionError("early exit is written as a GGUF only")


def _as_student(student: Student) -> Student:
    return student
