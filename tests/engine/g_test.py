"""A goodness-of-fit test of counted tokens against the law they should follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from scipy import stats

Pair = tuple[int, int]


def p_value(counts: Counter[Pair], law: Mapping[Pair, float], draws: int) -> float:
    """G-test; cells that expect fewer than 5 draws are put together."""
    assert set(counts) <= set(law), "a token of probability zero was emitted"
    observed: list[float] = [0.0]
    expected: list[float] = [0.0]
    for pair, chance in law.items():
        if chance * draws >= 5.0:
            observed.append(counts[pair])
            expected.append(chance * draws)
        else:
            observed[0] += counts[pair]
            expected[0] += chance * draws
    if expected[0] == 0.0:
        del observed[0], expected[0]
    scale = sum(observed) / sum(expected)
    test = stats.power_divergence(observed, np.array(expected) * scale, lambda_="log-likelihood")
    return float(test.pvalue)
