"""What a training reads: documents to learn from, others to measure on, and how that is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.train.heldout import figures, joined
from engine.train.shards import Document
from engine.train.torch_batches import Batch, make_batch, sample_of
from engine.train.torch_trainee import Trainee
from engine.train.training import HeldOut

_ROWS_AT_ONCE = 2000


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
            parts.append(trainee.drafts(batch_of(trainee, group, device)))
            group, held = [], 0
    if group:
        parts.append(trainee.drafts(batch_of(trainee, group, device)))
    return figures(joined(parts))


def batch_of(trainee: Trainee, documents: Sequence[Document], device: torch.device) -> Batch:
    return make_batch(documents, trainee.positions, trainee.features, device)
