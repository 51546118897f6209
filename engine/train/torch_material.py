"""What a training reads: documents to learn from, others to measure on, and how that is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.train.heldout import figures, joined
from engine.train.shards import Document
from engine.train.torch_batches import Batch, learned_tokens, make_batch, sample_of
from engine.train.torch_trainee import Trainee
from engine.train.training import HeldOut
from engine.train.work import OWN

_ROWS_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Material:
    """Documents to train on and documents held out."""

    training: Sequence[Document]
    heldout: Sequence[Document]


def limited(documents: Sequence[Document], tokens: int | None, seed: int) -> Sequence[Document]:
    """Documents with about `tokens` learned tokens in a seeded order, the user's own ones first."""
    if tokens is None:
        return documents
    own = [document for document in documents if document.category in OWN]
    others = [document for document in documents if document.category not in OWN]
    chosen = list(sample_of(own, tokens, seed))
    left = tokens - sum(map(learned_tokens, chosen))
    return [*chosen, *sample_of(others, left, seed)]


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
