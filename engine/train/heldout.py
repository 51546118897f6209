"""One definition of how well a drafter does on held-out documents, for all kinds. Pure numpy.

Anchor t: the target has decided the tokens up to t + 1. Position j (from 1) drafts token
t + 1 + j. The reference is the target's own first choice there, known as long as the document
followed the target's first choices before; positions after that are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.train.training import HeldOut


@dataclass(frozen=True, slots=True)
class Drafts:
    """drafted, chosen, written: [anchors, positions] token ids, -1 where there is no position.

    chosen: the target's first choice; written: what the document has.
    """

    drafted: NDArray[np.int64]
    chosen: NDArray[np.int64]
    written: NDArray[np.int64]


def figures(drafts: Drafts) -> HeldOut:
    """Kaplan-Meier: a chain that hits but whose document goes another way is cut off there."""
    exists = drafts.chosen >= 0
    follows = drafts.written == drafts.chosen
    known = exists.copy()
    known[:, 1:] &= np.logical_and.accumulate(follows, axis=1)[:, :-1]
    hit = known & (drafts.drafted == drafts.chosen)
    reached = known.copy()
    reached[:, 1:] &= np.logical_and.accumulate(hit, axis=1)[:, :-1]
    hits = _shares(hit, known)
    conditional = _shares(hit & reached, reached)
    return HeldOut(
        hits=tuple(hits.tolist()),
        conditional=tuple(conditional.tolist()),
        accepted=float(np.cumprod(conditional).sum()),
        anchors=len(drafts.drafted),
    )


def joined(parts: list[Drafts]) -> Drafts:
    return Drafts(
        np.concatenate([part.drafted for part in parts]),
        np.concatenate([part.chosen for part in parts]),
        np.concatenate([part.written for part in parts]),
    )


def _shares(hit: NDArray[np.bool_], among: NDArray[np.bool_]) -> NDArray[np.float64]:
    counts = among.sum(axis=0)
    shares: NDArray[np.float64] = hit.sum(axis=0) / np.maximum(counts, 1)
    return shares
