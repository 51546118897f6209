"""What a training reads: documents to learn from, others to measure on, and how that is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.train.corpus.shards import Document
from engine.train.corpus.work import OWN
from engine.train.heldout import Drafts, figures, joined
from engine.train.torch.batches import Batch, learned_tokens, make_batch, sample_of, thinned
from engine.train.torch.student import Student
from engine.train.training import HeldOut

_ROWS_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Dataset:
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


@dataclass(frozen=True, slots=True)
class Sample:
    """Documents to measure on. share: of their anchors, drawn by the seed.

    Anchors of one document are much alike, so few of many documents say more than all of a few.
    """

    documents: Sequence[Document]
    share: float = 1.0
    seed: int = 0


def heldout_sample(
    documents: Sequence[Document], anchors: int, spread: int, seed: int, after: int = 0
) -> Sample:
    """About so many anchors from `spread` times as many documents as hold them, if there are.

    after: the sample of that size, whose documents are left out.
    """
    found = list(sample_of(documents, spread * anchors, seed, after=spread * after))
    held = sum(map(learned_tokens, found))
    return Sample(found, min(1.0, anchors / held) if held else 1.0, seed)


def measure(student: Student, sample: Sample, device: torch.device) -> HeldOut:
    """Held-out figures."""
    random = np.random.default_rng(sample.seed)
    parts: list[Drafts] = []
    for group in _groups(sample.documents):
        batch = batch_of(student, group, device)
        parts.append(student.drafts(thinned(batch, sample.share, random, first=True)))
    return figures(joined(parts))


def _groups(documents: Sequence[Document]) -> Iterator[list[Document]]:
    group: list[Document] = []
    for document in documents:
        group.append(document)
        if sum(len(one.tokens) for one in group) >= _ROWS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def batch_of(student: Student, documents: Sequence[Document], device: torch.device) -> Batch:
    return make_batch(documents, student.positions, student.features, device)
