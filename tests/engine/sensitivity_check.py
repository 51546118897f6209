"""Whether one value of a constant of automatic drafting is better than the one in use.

    python -m tests.engine.sensitivity_check policy.margin=0.02 statistics.longest_rest=400

Other chats than those of sensitivity.py, so that a value which looked good there by chance is found
out, with the standard error over chats.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.control.tuning import TUNING, Tuning
from tests.engine.sensitivity import SETTINGS, changed, value_of

SEEDS = range(4, 12)
SHOWN = 3


def logarithms(tuning: Tuning) -> NDArray[np.float64]:
    """Of speed-ups [settings, chats]."""
    found = [[setting.speed_up(tuning, seed) for seed in SEEDS] for setting in SETTINGS.values()]
    return np.log(np.array(found, np.float64))


def described(changes: NDArray[np.float64]) -> str:
    """changes: by chat."""
    error = changes.std(ddof=1) / np.sqrt(len(changes))
    return f"{changes.mean():+.2%} +- {error:.2%}"


def main(arguments: Sequence[str]) -> None:
    usual, names = logarithms(TUNING), list(SETTINGS)
    for argument in arguments:
        name, _, text = argument.partition("=")
        value = int(text) if isinstance(value_of(TUNING, name), int) else float(text)
        changes = logarithms(changed(name, value)) - usual
        most = np.argsort(-np.abs(changes.mean(axis=1)))[:SHOWN]
        settings = ", ".join(f"{names[index]} {described(changes[index])}" for index in most)
        print(f"{argument}: mean {described(changes.mean(axis=0))}; {settings}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
