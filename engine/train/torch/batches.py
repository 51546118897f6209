"""Documents of a corpus side by side, as tensors: no padding, whole documents only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.train.corpus.shards import Document


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of several documents. starts: where each begins, and the end [documents + 1].

    anchors[j]: rows t whose position j + 1 counts (the token at t + 2 + j was written by the
    target), ascending; each holds the ones after it. top_ids, top_probs [rows, k]: what the
    target would say after a row.
    """

    starts: tuple[int, ...]
    tokens: Tensor
    anchors: tuple[Tensor, ...]
    top_ids: Tensor
    top_probs: Tensor
    hidden: Tensor | None
    layers: Tensor | None


@dataclass(frozen=True, slots=True)
class Features:
    """Which features a drafter reads."""

    hidden: bool = False
    layers: bool = False


def anchors_of(answer: NDArray[np.bool_], position: int) -> NDArray[np.bool_]:
    """[rows]: whether the token `position` + 1 after a row, and all from 2 on, are learned."""
    counts = np.zeros(len(answer), bool)
    for ahead in range(2, position + 2):
        shifted = np.zeros(len(answer), bool)
        if ahead < len(answer):
            shifted[:-ahead] = answer[ahead:]
        counts = shifted if ahead == 2 else counts & shifted
    return counts


def learned_tokens(document: Document) -> int:
    """Anchors of the first position."""
    return int(np.count_nonzero(document.answer[2:]))


def plan_batches(lengths: Sequence[int], size: int, seed: int, epoch: int) -> list[list[int]]:
    """Numbers of documents, shuffled, in groups of at least `size` learned tokens each.

    lengths: learned tokens of each document; those without any are left out.
    """
    order = np.random.default_rng((seed, epoch)).permutation(len(lengths))
    groups: list[list[int]] = []
    group: list[int] = []
    held = 0
    for number in order.tolist():
        if lengths[number] == 0:
            continue
        group.append(number)
        held += lengths[number]
        if held >= size:
            groups.append(group)
            group, held = [], 0
    if group:
        groups.append(group)
    return groups


def make_batch(
    documents: Sequence[Document], positions: int, features: Features, device: torch.device
) -> Batch:
    starts = np.cumsum([0, *(len(document.tokens) for document in documents)])
    anchors = []
    for position in range(1, positions + 1):
        rows = [
            np.flatnonzero(anchors_of(document.answer, position)) + start
            for document, start in zip(documents, starts[:-1], strict=True)
        ]
        anchors.append(torch.from_numpy(np.concatenate(rows)).to(device))
    return Batch(
        starts=tuple(starts.tolist()),
        tokens=_joined([document.tokens for document in documents], np.int64, device),
        anchors=tuple(anchors),
        top_ids=_joined([document.top_ids for document in documents], np.int64, device),
        top_probs=_joined(
            [document.top_logprobs for document in documents], np.float32, device
        ).exp_(),
        hidden=_joined([document.hidden for document in documents], np.float32, device)
        if features.hidden
        else None,
        layers=_joined([document.layers for document in documents], np.float32, device)
        if features.layers
        else None,
    )


def thinned(
    batch: Batch, share: float, random: np.random.Generator, *, first: bool = False
) -> Batch:
    """The same batch with later positions, or with `first` all, for a share of anchors only."""
    lucky = torch.from_numpy(random.random(len(batch.tokens)) < share).to(batch.tokens.device)
    fewer = tuple(anchors[lucky[anchors]] for anchors in batch.anchors)
    return replace(batch, anchors=fewer if first else (batch.anchors[0], *fewer[1:]))


def sample_of(
    documents: Sequence[Document], anchors: int, seed: int, after: int = 0
) -> Iterator[Document]:
    """Documents in a seeded order until they hold `anchors` learned tokens.

    after: first leave out those that hold so many, which are what a sample of that size is.
    """
    held = 0
    for number in np.random.default_rng(seed).permutation(len(documents)).tolist():
        if held >= after + anchors:
            return
        if held >= after:
            yield documents[number]
        held += learned_tokens(documents[number])


def _joined(
    parts: Sequence[NDArray[np.generic]], kind: type[np.generic], device: torch.device
) -> Tensor:
    return torch.from_numpy(np.concatenate(parts).astype(kind)).to(device)
