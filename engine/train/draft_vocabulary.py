"""Which tokens a drafter's own head knows (FR-Spec, arXiv 2502.14856: fewer rows, still exact)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def choose_tokens(counts: NDArray[np.int64], size: int, vocabulary: int) -> NDArray[np.int64]:
    """Ids ascending: the tokens seen in answers, the rest the lowest ids.

    counts: [vocabulary] times each token is in answers. Byte-pair merges are numbered in the
    order they were learned, so low ids are frequent ones in general; when more tokens were seen
    than fit, the most frequent ones are kept.
    """
    size = min(size, vocabulary)
    seen = np.flatnonzero(counts)
    if len(seen) > size:
        order = np.lexsort((seen, -counts[seen]))
        return np.sort(seen[order[:size]])
    others = np.setdiff1d(np.arange(vocabulary), seen, assume_unique=True)
    return np.sort(np.concatenate([seen, others[: size - len(seen)]]))


def positions_of(token_ids: NDArray[np.int64], vocabulary: int) -> NDArray[np.int64]:
    """[vocabulary]: the row of each token in the drafter's head, -1 for none."""
    rows = np.full(vocabulary, -1, np.int64)
    rows[token_ids] = np.arange(len(token_ids))
    return rows
